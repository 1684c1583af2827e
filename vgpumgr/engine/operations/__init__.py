"""Operations: journalled tasks begun, run step by step, resumed after a crash, undone."""
