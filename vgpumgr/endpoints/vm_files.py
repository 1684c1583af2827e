"""The endpoint of a VM's file: the document that would make the VM as it is."""

from __future__ import annotations

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.vms import OneVm


class VmFile(TypedDict):
    """A VM as a document, in YAML: to be changed, and applied."""

    name: str
    text: str


def show_file(context: CallContext, asked: OneVm) -> Result[VmFile]:
    """The document of a VM, by the ledger; NotFound suggests near names."""
    import yaml

    from vgpumgr.spec.dump import vm_document

    spec = context.reads.vm(asked.name).spec
    text = yaml.safe_dump(vm_document(spec), sort_keys=False, allow_unicode=True)
    return Result(answer={"name": spec.name, "text": text})


SHOW_FILE = Endpoint(
    name="vm.file",
    method=HttpMethod.GET,
    path="/vms/{name}/file",
    permission=Permission.VM_CREATE,
    summary="The document of a VM, to be changed and applied.",
    asks=OneVm,
    answers=VmFile,
    kind="VMFile",
    work=show_file,
    scoped=True,
)

ENDPOINTS = (SHOW_FILE,)
