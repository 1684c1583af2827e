"""A guest without an operating system: it counts on its serial line, and obeys the power button.

Its bytes stand beside their instructions, so that no assembler is needed. The number is nowhere but
in the guest's memory: where it goes on, nothing was lost and nothing began anew.
"""

from __future__ import annotations

# ICH9's ACPI registers, where SeaBIOS puts them on a q35 machine.
_CODE = """
31 c0                      xor ax, ax
8e d0                      mov ss, ax
bc 00 7c                   mov sp, 0x7c00
31 d2                      xor dx, dx             the first serial line
b8 e3 00                   mov ax, 0x00e3         init: 9600 baud, 8n1
cd 14                      int 0x14
ba 02 06                   mov dx, 0x602          PM1_EN
b8 00 01                   mov ax, 0x0100         the power button
ef                         out dx, ax
66 31 f6                   xor esi, esi           the number
66 89 f0           next:   mov eax, esi
66 bb 0a 00 00 00          mov ebx, 10
31 c9                      xor cx, cx
66 31 d2           digit:  xor edx, edx
66 f7 f3                   div ebx
52                         push dx
41                         inc cx
66 85 c0                   test eax, eax
75 f3                      jnz digit
31 d2                      xor dx, dx
58                 send:   pop ax
04 30                      add al, '0'
b4 01                      mov ah, 1              send a character
cd 14                      int 0x14
e2 f7                      loop send
b8 0a 01                   mov ax, 0x010a         a new line
cd 14                      int 0x14
66 46                      inc esi
fb                         sti
f4                         hlt                    18 ticks a second
ba 00 06                   mov dx, 0x600          PM1_STS
ed                         in ax, dx
f6 c4 01                   test ah, 1             the power button
74 cb                      jz next
ba 04 06                   mov dx, 0x604          PM1_CNT
b8 00 20                   mov ax, 0x2000         off
ef                         out dx, ax
eb fe                      jmp $
"""
_BYTES_COLUMN = 19
_CODE_BYTES = bytes.fromhex(" ".join(line[:_BYTES_COLUMN] for line in _CODE.splitlines()))
BOOT_SECTOR = _CODE_BYTES.ljust(510, b"\0") + b"\x55\xaa"
