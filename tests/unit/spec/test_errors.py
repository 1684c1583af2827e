"""Bad input: every problem with its line, column, key path and the way out."""

from __future__ import annotations

import pytest

from vgpumgr.model.errors import UnknownProfile, UsageError
from vgpumgr.spec import SpecError, SpecProblem, UnknownProfiles, load
from vgpumgr.spec.spec_file import MAX_PROBLEMS

HEAD = "apiVersion: vgpumgr/v1\nkind: VM\nname: a\n"
HOST = "apiVersion: vgpumgr/v1\nkind: Host\nname: h\n"
FLEET = "apiVersion: vgpumgr/v1\nkind: Fleet\nname: f\n"


def problems(data: str | bytes) -> tuple[SpecProblem, ...]:
    """What is wrong with a file."""
    with pytest.raises(SpecError) as caught:
        load(data, "f.yaml")
    return caught.value.problems


def problem(data: str | bytes) -> SpecProblem:
    """The one thing that is wrong with a file."""
    (found,) = problems(data)
    return found


def test_an_error_names_file_line_column_and_key_path() -> None:
    found = problem(HEAD + "gpus:\n  - profile: T4-4Q\n    count: 17\n")
    assert found == SpecProblem("f.yaml", 6, 12, "gpus[0].count", "must be at most 16, not 17")
    assert str(found) == "f.yaml:6:12: gpus[0].count: must be at most 16, not 17"


@pytest.mark.parametrize(
    ("line", "where", "path", "message"),
    [
        ("gpu: []", (4, 1), "gpu", "unknown key; did you mean gpus?"),
        ("gpus: [{profil: T4-4Q, profile: T4-4Q}]", (4, 9), "gpus[0].profil", "mean profile?"),
        ("affinity: {host: [h]}", (4, 12), "affinity.host", "did you mean hosts?"),
        ("networks: [{xyz: br0}]", (4, 13), "networks[0].xyz", "known are bridge, network"),
        ("numa: Requires", (4, 7), "numa", "none, prefer or require, not 'Requires'; did you mean"),
        ("policy: depth_first", (4, 9), "policy", "did you mean depth-first?"),
        ("disks: [{mode: overlai, image: x}]", (4, 16), "disks[0].mode", "did you mean overlay?"),
        ("vcpus: 0", (4, 8), "vcpus", "must be at least 1, not 0"),
        ("vcpus: 513", (4, 8), "vcpus", "must be at most 512, not 513"),
        ("vcpus: two", (4, 8), "vcpus", "must be a whole number, not 'two'"),
        ("vcpus: 2.5", (4, 8), "vcpus", "must be a whole number, not 2.5"),
        ("vcpus: true", (4, 8), "vcpus", "must be a whole number, not True"),
        ("replicas: 0", (4, 11), "replicas", "must be at least 1, not 0"),
        ("replicas: 10001", (4, 11), "replicas", "must be at most 10000"),
        ("memory: 8", (4, 9), "memory", "like 8GiB"),
        ("memory: 8GB", (4, 9), "memory", "'8GB' is not a size"),
        ("memory: 63MiB", (4, 9), "memory", "from 64MiB"),
        ("memory: 1KiB", (4, 9), "memory", "whole number of MiB"),
        ("hugepages: 3MiB", (4, 12), "hugepages", "must be 2MiB or 1GiB"),
        ("hugepages: 1GiB\nmemory: 1536MiB", (4, 12), "hugepages", "not a whole number of these"),
        ("autostart: yes", (4, 12), "autostart", "must be true or false, not 'yes'"),
        ("tenant: 12", (4, 9), "tenant", 'must be text: write "12"'),
        ("labels: {a: 1.10}", (4, 13), "labels.a", "must be text"),
        ("labels: {a b: c}", (4, 10), "labels.a b", "is not a label name"),
        ("labels: [a]", (4, 9), "labels", "must be a mapping of keys to values, not a list"),
        ("gpus: {profile: T4-4Q}", (4, 7), "gpus", "must be a list, not a mapping"),
        ("gpus: [T4-4Q]", (4, 8), "gpus[0]", "must be a mapping"),
        ("gpus: [{count: 1}]", (4, 8), "gpus[0]", "needs exactly one of profile and memory"),
        ("gpus: [{profile: T4-4Q, memory: 4GiB}]", (4, 8), "gpus[0]", "exactly one of profile and"),
        ("gpus: [{memory: 8}]", (4, 17), "gpus[0].memory", "like 8GiB"),
        ("gpus: [{memory: 8GiB, framework: vf}]", (4, 34), "gpus[0].framework", "vfio-vf"),
        (
            "gpus: [{profile: passthrough, framework: mdev}]",
            (4, 42),
            "gpus[0].framework",
            "profile passthrough is always passthrough",
        ),
        (
            "gpus: [{profile: MI300X-1of8, framework: vfio-vf}]",
            (4, 42),
            "gpus[0].framework",
            "profile MI300X-1of8 is always pci-vf",
        ),
        (
            "gpus: [{profile: passthrough, frame_rate_limiter: false}]",
            (4, 51),
            "gpus[0].frame_rate_limiter",
            "only a vGPU has one",
        ),
        (
            "gpus: [{profile: T4-4Q, frame_rate_limiter: 60}]",
            (4, 45),
            "gpus[0].frame_rate_limiter",
            "true",
        ),
        ("gpus: [{profile: T4-4Q, count: 9}, {profile: T4-4Q, count: 9}]", (4, 7), "gpus", "16"),
        ("gpus: [{profile: 1g.10gbb}]", (4, 18), "gpus[0].profile", "did you mean 1g.10gb"),
        ("gpus: [{profile: MI300X-1of9}]", (4, 18), "gpus[0].profile", "did you mean MI300X-1of8"),
        ("queue: 3", (4, 8), "queue", "must be a mapping"),
        ("queue: {prio: 1}", (4, 9), "queue.prio", "did you mean priority?"),
        ("queue: {priority: urgent}", (4, 19), "queue.priority", "high, normal, low or a whole"),
        ("queue: {priority: 1001}", (4, 19), "queue.priority", "at most 1000"),
        ("queue: {runtime: 4}", (4, 18), "queue.runtime", "like 4h"),
        ("queue: {runtime: 900d}", (4, 18), "queue.runtime", "to 366d"),
        ("queue: {after: [a]}", (4, 16), "queue.after", "its own end"),
        ("disks: [{}]", (4, 9), "disks[0]", "needs a size"),
        ("disks: [{size: 1GiB, image: x}]", (4, 29), "disks[0].image", "a fresh disk has no image"),
        ("disks: [{mode: copy}]", (4, 9), "disks[0]", "mode: copy needs an image"),
        ("disks: [{mode: overlay}]", (4, 9), "disks[0]", "mode: overlay needs an image"),
        (
            "disks: [{mode: overlay, image: x, format: raw}]",
            (4, 43),
            "disks[0].format",
            "always qcow2",
        ),
        ("disks: [{size: 1GiB, pool: ../x}]", (4, 28), "disks[0].pool", "no /"),
        ("networks: [{}]", (4, 12), "networks[0]", "exactly one of bridge, network and sriov"),
        ("networks: [{sriov: {}}]", (4, 20), "networks[0].sriov", "exactly one"),
        ("networks: [{sriov: {physical: a, network: b}}]", (4, 20), "networks[0].sriov", "one"),
        ("networks: [{sriov: {physical: a/b}}]", (4, 31), "networks[0].sriov.physical", "name"),
        (
            "networks: [{sriov: {physical: a, vlan: 4095}}]",
            (4, 40),
            "networks[0].sriov.vlan",
            "4094",
        ),
        ("networks: [{sriov: {physical: a, trust: 1}}]", (4, 41), "networks[0].sriov.trust", ""),
        ("networks: [{bridge: b, sriov: {physical: a}}]", (4, 12), "networks[0]", "exactly one"),
        ("networks: [{bridge: b, network: n}]", (4, 12), "networks[0]", "exactly one"),
        ("networks: [{bridge: <b/>}]", (4, 21), "networks[0].bridge", "is not an interface name"),
        ("display: true", (4, 10), "display", "needs at least one vGPU"),
        ("display: true\ngpus: [{profile: passthrough}]", (4, 10), "display", "at least one vGPU"),
        ("display: true\ngpus: [{profile: MI300X-1of8}]", (4, 10), "display", "least one vGPU"),
        ("firmware: efi", (4, 11), "firmware", "did you mean uefi?"),
        ("name: b", (4, 1), "name", "duplicate key, first on line 3"),
    ],
)
def test_a_wrong_vm_field_is_found_where_it_stands(
    line: str, where: tuple[int, int], path: str, message: str
) -> None:
    found = problem(f"{HEAD}{line}\n")
    assert ((found.line, found.column), found.path) == (where, path)
    assert message in found.message


@pytest.mark.parametrize(
    "name", ["A", "-a", "a_b", "a" * 64, "a.b", "", "<a/>", "a b", "../a", "ä", "a\nb"]
)
def test_a_name_outside_the_rule_is_refused(name: str) -> None:
    found = problem(f"apiVersion: vgpumgr/v1\nkind: VM\nname: {name!r}\n")
    assert (found.line, found.path) == (3, "name")


def test_a_name_may_grow_too_long_by_its_number() -> None:
    text = f"apiVersion: vgpumgr/v1\nkind: VM\nname: {'a' * 61}\n"
    assert len(load(text, "f.yaml").vms) == 1
    assert "is longer than 63 characters" in problem(text + "replicas: 2\n").message


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (HOST, "address", "is missing"),
        (HOST + "address: -oProxyCommand=x\n", "address", "is not an address"),
        (HOST + "address: ssh://h\n", "address", "is not an address"),
        (HOST + "address: h\ncpu_overcommit: 0\n", "cpu_overcommit", "must be at least 1"),
        (HOST + "address: h\naccelerator: xen\n", "accelerator", "must be auto, kvm or tcg"),
        (FLEET, "hosts", "is missing"),
        (FLEET + "hosts: []\n", "hosts", "must hold at least 1 entry"),
        (
            FLEET + "hosts: [{name: h, gpus: [{board: T44}]}]\n",
            "hosts[0].gpus[0].board",
            "mean T4?",
        ),
        (
            FLEET + "hosts: [{name: h, count: 2900}, {name: i, count: 2900}]\n",
            "hosts",
            "at most 5000",
        ),
        (FLEET + "hosts: [{name: h, count: 2}, {name: h-02}]\n", "hosts[1].name", "duplicate"),
    ],
)
def test_a_wrong_host_or_fleet_is_refused(text: str, path: str, message: str) -> None:
    found = problem(text)
    assert found.path == path
    assert message in found.message


def test_all_problems_of_all_documents_come_in_one_error() -> None:
    text = f"{HEAD}gpu: []\nvcpus: 0\n---\n- x\n---\n{HEAD.replace('VM', 'Vm')}"
    found = problems(text)
    assert [(each.line, each.path) for each in found] == [
        (4, "gpu"),
        (5, "vcpus"),
        (7, ""),
        (10, "kind"),
    ]
    with pytest.raises(SpecError) as caught:
        load(text, "f.yaml")
    assert caught.value.message.splitlines()[0] == "f.yaml has 4 problems"
    assert all(str(each) in caught.value.message for each in found)
    assert caught.value.exit_status == 2
    assert [each.document for each in found] == [1, 1, 2, 3]
    assert str(found[2]).startswith("f.yaml:7:1: document 2: ")
    keys = ("file", "line", "column", "document", "path", "message")
    assert caught.value.as_dict()["problems"] == [
        {key: getattr(each, key) for key in keys} for each in found
    ]


def test_an_unknown_profile_is_its_own_error_with_a_suggestion() -> None:
    with pytest.raises(UnknownProfile) as caught:
        load(HEAD + "gpus: [{profile: T4-4QQ}]\n", "f.yaml")
    assert isinstance(caught.value, UnknownProfiles)
    assert (caught.value.code, caught.value.exit_status) == ("usage.profile", 2)
    assert "f.yaml:4:18: gpus[0].profile" in caught.value.message
    assert "'T4-4QQ'; did you mean T4-4Q" in caught.value.message


def test_an_unknown_profile_beside_another_fault_is_a_spec_error() -> None:
    with pytest.raises(SpecError) as caught:
        load(HEAD + "vcpus: 0\ngpus: [{profile: T4-4QQ}]\n", "f.yaml")
    assert not isinstance(caught.value, UnknownProfile)


def test_learned_profiles_are_suggested() -> None:
    text = HEAD + "gpus: [{profile: mbochs-big}]\n"
    with pytest.raises(UnknownProfile, match="did you mean mbochs-3"):
        load(
            HEAD + "gpus: [{profile: mbochs-33}]\n",
            "f.yaml",
            known_profiles=frozenset({"mbochs-3"}),
        )
    with pytest.raises(UnknownProfile):
        load(text, "f.yaml")


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("kind: VM\nname: a\n", "apiVersion", "is missing: vgpumgr/v1"),
        ("apiVersion: vgpumgr/v2\nkind: VM\nname: a\n", "apiVersion", "did you mean vgpumgr/v1?"),
        ("apiVersion: vgpumgr/v1\nname: a\n", "kind", "is missing"),
        ("apiVersion: vgpumgr/v1\nkind: Flete\nname: a\n", "kind", "did you mean Fleet?"),
        ("apiVersion: vgpumgr/v1\nkind: [VM]\nname: a\n", "kind", "not ['VM']"),
        ("apiversion: vgpumgr/v1\nkind: VM\nname: a\n", "apiversion", "did you mean apiVersion?"),
        ("apiVersion: vgpumgr/v1\nkind: VM\n", "name", "is missing"),
        ("just text\n", "", "must be a mapping"),
    ],
)
def test_a_wrong_head_is_refused(text: str, path: str, message: str) -> None:
    found = problem(text)
    assert found.path == path
    assert message in found.message


def test_duplicate_vm_names_are_refused_naming_both_lines() -> None:
    found = problem(f"{HEAD}---\n{HEAD}")
    assert (found.line, found.path) == (7, "name")
    assert found.message == "duplicate VM name a, first on line 3"


def test_a_replica_may_not_take_another_vms_name() -> None:
    other = HEAD.replace("name: a", "name: a-02")
    found = problem(f"{HEAD}replicas: 3\n---\n{other}")
    assert found.message == "duplicate VM name a-02, first on line 3"


def test_a_file_asks_for_a_bounded_number_of_vms() -> None:
    other = HEAD.replace("name: a", "name: b")
    assert len(load(f"{HEAD}replicas: 9999\n---\n{other}", "f.yaml").vms) == 10_000
    found = problem(f"{HEAD}replicas: 10000\n---\n{other}")
    assert (found.line, found.message) == (6, "a file asks for at most 10000 VMs in all")


def test_many_problems_are_cut_and_counted() -> None:
    found = problems(HEAD + "".join(f"x{number}: 1\n" for number in range(200)))
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1].message == f"and {200 - MAX_PROBLEMS} more"


def test_a_control_character_is_refused_and_never_printed() -> None:
    found = problem(HEAD + 'cloud_init: {user_data: "x\\x1b[2Jy"}\n')
    assert found.message == r"control characters in 'x\x1b[2Jy'"
    for each in problems(HEAD + '"\\e[2J": a\n"' + "k" * 5000 + '": a\n'):
        assert str(each).isprintable()
        assert len(str(each)) < 500


def test_a_line_break_is_refused_in_a_label_and_kept_in_user_data() -> None:
    assert "line break" in problem(HEAD + 'labels: {a: "x\\ny"}\n').message
    kept = load(HEAD + 'cloud_init: {user_data: "x\\n\\ty"}\n', "f.yaml").vms[0].cloud_init
    assert kept is not None
    assert kept.user_data == "x\n\ty"


def test_long_values_are_cut_in_messages() -> None:
    found = problem(f"{HEAD}tenant: {'y' * 100_000}\n")
    assert len(found.message) < 200
    assert "longer than 255" in problem(f"{HEAD}labels: {{a: {'y' * 100_000}}}\n").message


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        (b"name: \xff\n", (1, 7), "not UTF-8 text: byte 0xff"),
        ("name: a\nb: \u00e9".encode("latin-1"), (2, 4), "not UTF-8 text: byte 0xe9"),
        ("name: a".encode("utf-16"), (1, 1), "not UTF-8 text"),
        ("a: \ud800", (1, 4), "not UTF-8 text"),
        ("a: b\nc: \x07\n", (2, 4), "not valid YAML"),
        ("a: [\n", (2, 1), "not valid YAML"),
        ("a: b: c\n", (1, 5), "not valid YAML"),
        ("\tname: a\n", (1, 1), "not valid YAML"),
        ("a: !!python/object/apply:os.system [x]\n", (1, 4), "tags (!name) are not accepted"),
        ("a: &x [1]\nb: *x\n", (2, 4), "aliases (*name) are not accepted"),
        ("? [a]\n: b\n", (1, 3), "a key must be plain text"),
        ("a: " + "[" * 33 + "]" * 33, (1, 35), "nested deeper than 32 levels"),
        (b"x" * ((1 << 20) + 1), (1, 1), "larger than 1 MiB"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_plain_yaml_is_refused_at_its_place(
    data: str | bytes, where: tuple[int, int], message: str
) -> None:
    found = problem(data)
    assert (found.line, found.column) == where
    assert message in found.message


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{this}: &{this} [{','.join([f'*{that}'] * 9)}]\n"
    for that, this in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "data",
    [
        b"a: b\n" * 2_000_000,
        BOMB.encode(),
        b"a: " + b"[" * 1_000_000,
        b"{a: " * 250_000,
        b"- " * 500_000,
        b"? " * 500_000,
        b"'" + b"a" * 1_000_000,
        b"--- \n" * 200_000,
        b"".join(b"x%d: 1\n" % number for number in range(90_000)),
    ],
    ids=["10 MB", "bomb", "flow", "maps", "dashes", "keys", "quote", "documents", "many keys"],
)
def test_a_hostile_file_ends_soon_with_a_usage_error_or_nothing(data: bytes) -> None:
    try:
        assert load(data, "f.yaml").vms == ()
    except UsageError as error:
        assert len(str(error)) < 30_000
