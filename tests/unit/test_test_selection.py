"""Which unit tests are chosen for a module."""

from __future__ import annotations

from tools.source_tree import Source, SourceTree
from tools.test_selection import MAX_TEST_FILES, Selection


def source(path: str, text: str) -> Source:
    return Source(path.removesuffix(".py").replace("/", "."), path, False, text)


def chosen(files: dict[str, str], module: str) -> list[str]:
    code = SourceTree({each.name: each for each in map(source, files, files.values())})
    return Selection(code).tests_for(module)


def test_direct_imports_come_first_then_the_room_then_the_rest_within_reach() -> None:
    files = {
        "vgpumgr/store/a.py": "",
        "vgpumgr/store/b.py": "import vgpumgr.store.a",
        "vgpumgr/app/c.py": "import vgpumgr.store.b",
        "vgpumgr/app/d.py": "import vgpumgr.app.c",
        "tests/helping.py": "import vgpumgr.store.a",
        "tests/unit/store/test_b.py": "import vgpumgr.store.b",
        "tests/unit/app/test_a.py": "from vgpumgr.store import a",
        "tests/unit/store/test_z.py": "from vgpumgr.store import a",
        "tests/unit/test_helped.py": "from tests import helping",
        "tests/unit/app/test_c.py": "import vgpumgr.app.c",
        "tests/unit/app/test_d.py": "import vgpumgr.app.d",
        "tests/unit/store/test_others.py": "",
        "tests/e2e/test_a.py": "import vgpumgr.store.a",
    }
    assert chosen(files, "vgpumgr.store.a") == [
        "tests/unit/store/test_z.py",
        "tests/unit/app/test_a.py",
        "tests/unit/store/test_b.py",
        "tests/unit/store/test_others.py",
        "tests/unit/app/test_c.py",
        "tests/unit/test_helped.py",
    ]


def test_tests_that_name_what_the_module_defines_come_before_others() -> None:
    files = {
        "vgpumgr/store/a.py": "def rare(): ...\nclass Common:\n    def known(self): ...",
        "vgpumgr/store/b.py": "import vgpumgr.store.a",
        "tests/unit/store/test_1.py": "import vgpumgr.store.b\nvgpumgr.store.b.Common",
        "tests/unit/store/test_2.py": "import vgpumgr.store.b",
        "tests/unit/store/test_3.py": "import vgpumgr.store.b\nvgpumgr.store.b.rare",
        "tests/unit/store/test_4.py": "Common().known()",
    }
    numbers = [path[-4] for path in chosen(files, "vgpumgr.store.a")]
    assert numbers == ["4", "3", "1", "2"]


def test_a_test_that_is_named_like_the_module_comes_before_others() -> None:
    files = {"vgpumgr/store/old_image_rows.py": "", "tests/unit/store/test_a.py": ""}
    files |= {"tests/unit/store/test_images.py": "", "tests/unit/store/test_image_copies.py": ""}
    first, *_ = chosen(files, "vgpumgr.store.old_image_rows")
    assert first == "tests/unit/store/test_image_copies.py"


def test_a_package_has_a_folder_of_tests_like_a_room() -> None:
    files = {
        "vgpumgr/engine/drift/a.py": "",
        "tests/unit/drift/test_b.py": "",
        "tests/unit/placement/drift/test_c.py": "",
        "tests/unit/store/test_d.py": "",
    }
    tests = ["tests/unit/drift/test_b.py", "tests/unit/placement/drift/test_c.py"]
    assert chosen(files, "vgpumgr.engine.drift.a") == tests


def test_without_importers_and_a_room_all_tests_are_chosen() -> None:
    files = {"tests/unit/store/test_b.py": ""}
    assert chosen(files, "vgpumgr.store.a") == ["tests/unit/store/test_b.py"]
    assert chosen(files, "vgpumgr.app.a") == ["tests/unit"]


def test_no_more_files_than_can_be_run_are_chosen() -> None:
    files = {f"tests/unit/store/test_{number}.py": "" for number in range(MAX_TEST_FILES + 5)}
    assert len(chosen(files, "vgpumgr.store.a")) == MAX_TEST_FILES
