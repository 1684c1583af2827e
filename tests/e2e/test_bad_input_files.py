"""Files that cannot be used: each is refused with its place, before any host is met."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, new_cli, vm


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        yield found


def refused(cli: Cli, text: str | bytes, verb: str = "apply") -> str:
    """The message for a file that cannot be used; nothing may be made."""
    failed = cli.fails(2, verb, "-f", cli.file(text), "-o", "json")
    assert failed.out == ""
    assert failed.error["code"].startswith("usage")
    assert failed.error["next"]
    assert not cli.state.exists()
    return str(failed.error["message"])


def document(body: str) -> str:
    return f"apiVersion: vgpumgr/v1\nkind: VM\nname: a\n{body}\n"


@pytest.mark.parametrize("verb", ["apply", "plan", "diff", "explain"])
def test_an_unknown_key_is_named_with_its_line_and_a_suggestion(cli: Cli, verb: str) -> None:
    message = refused(cli, document("memroy: 4GiB"), verb)
    assert "given.yaml:4:1" in message
    assert "did you mean memory?" in message


def test_delete_checks_its_file_too(cli: Cli) -> None:
    failed = cli.fails(2, "delete", "-f", cli.file(document("memroy: 4GiB")), "-y")
    assert "did you mean memory?" in failed.err


def test_an_unknown_key_inside_a_gpu_is_named(cli: Cli) -> None:
    message = refused(cli, document("gpus: [{profle: T4-4Q}]"))
    assert "did you mean profile?" in message


def test_an_unknown_profile_gets_a_suggestion_and_its_own_code(cli: Cli) -> None:
    failed = cli.fails(2, "apply", "-f", cli.documents(vm("a", "T4-4QQ")), "-o", "json")
    assert failed.error["code"] == "usage.profile"
    assert "did you mean T4-4Q" in failed.error["message"]


@pytest.mark.parametrize("count", ["0", "-1", "17", "1000000000000", "1.5", "two", "null"])
def test_an_impossible_count_is_refused(cli: Cli, count: str) -> None:
    message = refused(cli, document(f"gpus: [{{profile: T4-4Q, count: {count}}}]"))
    assert "gpus[0].count" in message


@pytest.mark.parametrize("replicas", ["0", "-3", "100000", "many"])
def test_impossible_replicas_are_refused(cli: Cli, replicas: str) -> None:
    assert "replicas" in refused(cli, document(f"replicas: {replicas}"))


@pytest.mark.parametrize(
    "field",
    [
        "memory: 4",
        "memory: 4GB",
        "memory: 0GiB",
        "memory: 1PiB",
        "memory: -1GiB",
        "vcpus: 0",
        "vcpus: 100000",
        "vcpus: yes",
        "firmware: coreboot",
        "display: maybe",
        "numa: always",
        "policy: best",
        "hugepages: 3MiB",
        "disks: [{size: 10}]",
        "disks: [{size: 10GiB, mode: overlay}]",
        "networks: [{}]",
        "networks: [{bridge: br0, network: default}]",
        "gpus: T4-4Q",
        "gpus: {profile: T4-4Q}",
        "labels: [a]",
    ],
)
def test_an_impossible_value_is_named_by_its_field(cli: Cli, field: str) -> None:
    assert field.partition(":")[0] in refused(cli, document(field))


def test_duplicate_names_name_both_lines(cli: Cli) -> None:
    message = refused(cli, f"{document('vcpus: 1')}---\n{document('vcpus: 2')}")
    assert "duplicate VM name a, first on line 3" in message


def test_a_name_that_replicas_make_twice_is_a_duplicate(cli: Cli) -> None:
    one = document("replicas: 3")
    two = one.replace("name: a", "name: a-02").replace("replicas: 3", "vcpus: 1")
    assert "duplicate VM name a-02" in refused(cli, f"{one}---\n{two}")


def test_a_key_given_twice_is_refused(cli: Cli) -> None:
    assert "duplicate key" in refused(cli, document("vcpus: 1\nvcpus: 2"))


@pytest.mark.parametrize(
    "name", ["x" * 64, "Upper", "has space", "-lead", "", "ünïcode", "a/b", "../etc", "a\tb"]
)
def test_a_name_over_the_limits_is_refused(cli: Cli, name: str) -> None:
    assert "name" in refused(cli, document("vcpus: 1").replace("name: a", f'name: "{name}"'))


def test_a_name_that_replicas_make_too_long_is_refused(cli: Cli) -> None:
    text = document("replicas: 10").replace("name: a", f"name: {'x' * 62}")
    assert "longer than 63" in refused(cli, text)


def test_other_names_over_their_limits_are_refused(cli: Cli) -> None:
    long = "x" * 256
    for field in (
        f"networks: [{{bridge: {'b' * 16}}}]",
        f"networks: [{{network: {long}}}]",
        f"disks: [{{size: 1GiB, pool: {long}}}]",
        f"gpus: [{{profile: {long}}}]",
        f"labels: {{{'k' * 64}: v}}",
        f"labels: {{k: {long}}}",
        f"tenant: {'t' * 64}",
        f"affinity: {{hosts: [{'h' * 64}]}}",
    ):
        assert field.partition(":")[0] in refused(cli, document(field))


def test_ten_megabytes_are_refused_unread(cli: Cli) -> None:
    assert "larger than 1 MiB" in refused(cli, b"# padding\n" * (1 << 20))


def test_ten_megabytes_from_standard_input_are_refused(cli: Cli) -> None:
    failed = cli.fails(2, "apply", "-f", "-", stdin=b"# padding\n" * (1 << 20))
    assert "larger than 1 MiB" in failed.err


def test_a_yaml_bomb_is_refused_in_little_memory(cli: Cli) -> None:
    levels = "".join(f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]\n" for n in range(1, 30))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = refused(cli, document(f"b0: &b0 [lol]\n{levels}"))
    assert "aliases" in message or "anchors" in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_deep_nesting_is_refused(cli: Cli) -> None:
    assert "nested deeper" in refused(cli, document(f"labels: {'[' * 5000}{']' * 5000}"))


def test_a_tag_is_refused(cli: Cli) -> None:
    assert "tags" in refused(cli, document("labels: !!python/object/apply:os.system [id]"))


def test_bytes_that_are_not_utf_8_are_placed(cli: Cli) -> None:
    message = refused(cli, document("labels: {k: v}").encode() + b"tenant: \xff\xfe\n")
    assert "given.yaml:5:9" in message
    assert "0xff" in message


def test_utf_16_is_refused(cli: Cli) -> None:
    assert "not UTF-8" in refused(cli, document("vcpus: 1").encode("utf-16"))


def test_a_nul_byte_is_refused(cli: Cli) -> None:
    assert refused(cli, document("tenant: a\x00b"))


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n"])
def test_an_empty_file_names_no_vm(cli: Cli, text: str) -> None:
    assert "names no VM" in refused(cli, text)


@pytest.mark.parametrize("text", ["just text", "[1, 2]", "42", "a: [", "\t- a", "'"])
def test_what_is_no_document_is_refused(cli: Cli, text: str) -> None:
    assert "given.yaml:" in refused(cli, text)


def test_another_version_is_refused(cli: Cli) -> None:
    text = document("vcpus: 1").replace("vgpumgr/v1", "vgpumgr/v9")
    assert "vgpumgr/v1" in refused(cli, text)


def test_another_kind_is_refused_with_a_suggestion(cli: Cli) -> None:
    text = document("vcpus: 1").replace("kind: VM", "kind: VMs")
    assert "did you mean VM?" in refused(cli, text)


def test_a_host_in_a_file_of_vms_is_not_dropped_unsaid(cli: Cli) -> None:
    text = "apiVersion: vgpumgr/v1\nkind: Host\nname: a\naddress: local\n"
    assert "enrol 1 host (a)?" in refused(cli, text)


def test_a_folder_is_no_file(cli: Cli) -> None:
    failed = cli.fails(2, "apply", "-f", str(cli.folder))
    assert "cannot be read" in failed.err


def test_several_faults_are_all_reported_at_once(cli: Cli) -> None:
    failed = cli.fails(2, "apply", "-f", cli.file(document("vcpus: 0\nmemory: 4")), "-o", "json")
    lines = [problem["line"] for problem in failed.error["problems"]]
    assert lines == [4, 5]


def test_a_display_without_a_vgpu_is_refused(cli: Cli) -> None:
    message = refused(cli, document("display: true\ngpus: [{profile: passthrough}]"))
    assert "display" in message


@pytest.mark.parametrize(
    "address", ["user@", "a b", "http://x/y", "root@host@other", "-oProxyCommand=x", "sim://UP", ""]
)
def test_an_address_that_is_none_is_refused(cli: Cli, address: str) -> None:
    failed = cli.fails(2, "host", "add", "h", "--address", address)
    assert "address" in failed.err


@pytest.mark.parametrize("name", ["Upper", "x" * 64, "a;reboot", "$(id)"])
def test_a_host_name_that_is_none_is_refused(cli: Cli, name: str) -> None:
    failed = cli.fails(2, "host", "add", name, "--address", "local")
    assert "name" in failed.err


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("hosts: [{name: a, gpus: [{board: T44}]}]", "did you mean T4?"),
        ("hosts: []", "hosts"),
        ("hosts: [{name: a, count: 2}, {name: a-01}]", "duplicate"),
        ("hosts: [{name: a, memory: 1}]", "memory"),
    ],
)
def test_a_fleet_that_cannot_be_is_refused(cli: Cli, body: str, says: str) -> None:
    text = f"apiVersion: vgpumgr/v1\nkind: Fleet\nname: f\n{body}\n"
    assert says in cli.fails(2, "sim", "up", "-f", cli.file(text)).err


def test_sim_up_wants_exactly_one_fleet(cli: Cli) -> None:
    failed = cli.fails(2, "sim", "up", "-f", cli.file(document("vcpus: 1")))
    assert "exactly one document of kind: Fleet" in failed.err
