"""What people do with the pages, from the login to the end."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.apiserver import ApiServer
from tests.e2e.support import Cli, sim_host, until, vm
from tests.unit.engine.foreign import domain, pci_hostdev
from tests.unit.images.files import qcow2
from tests.web.visitor import Visitor


def test_a_reader_sees_a_change_as_it_is_committed(visitor: Visitor, cli: Cli) -> None:
    visitor.go("/map")
    before = visitor.page.locator("#totals").inner_text()
    cli.ok("apply", "-f", cli.documents(vm("live-a", "T4-8Q")))
    expect(visitor.page.locator("#totals")).not_to_have_text(before)
    expect(visitor.page.get_by_label(re.compile(r"live-a \(T4-8Q\)"))).to_be_visible()
    cli.ok("vm", "delete", "live-a", "-y", "--force")
    expect(visitor.page.locator("#totals")).to_have_text(before)
    assert visitor.go("/ask/vm.stop?names=desk-b") == 403


def test_a_reader_sees_what_another_hand_did_on_a_host(visitor: Visitor, cli: Cli) -> None:
    visitor.go("/map")
    before = visitor.page.locator("#totals").inner_text()
    [gpu] = cli.items("gpu", "list", "--host", "h3")
    with sim_host(cli, "h3") as hand:
        hand.domains.define(domain("by-hand", pci_hostdev(gpu["device"])))
        cli.ok("host", "probe", "h3")
        expect(visitor.page.locator("#totals")).not_to_have_text(before)
        hand.domains.undefine("by-hand")
    cli.ok("host", "probe", "h3")
    expect(visitor.page.locator("#totals")).to_have_text(before)


def test_a_page_that_has_lost_a_change_is_read_again(visitor: Visitor, cli: Cli) -> None:
    visitor.go("/map")
    totals = visitor.page.locator("#totals")
    before = totals.inner_text()
    visitor.page.evaluate(_LOSE_ALL)
    cli.ok("apply", "-f", cli.documents(vm("lost-a", "T4-8Q")))
    expect(totals).not_to_have_text(before)
    assert visitor.page.evaluate("window.lost") is None, "it was read again"
    cli.ok("vm", "delete", "lost-a", "-y", "--force")
    expect(totals).to_have_text(before)


_LOSE_ALL = """() => {
  window.lost = true;
  document.getElementById("live").addEventListener("htmx:sse:before:message", (event) => {
    if (!event.detail.message.event) event.preventDefault();
  });
}"""


def test_a_vm_is_stopped_with_a_question_and_its_operation_is_watched(
    operator: Visitor, cli: Cli
) -> None:
    page = operator.page
    operator.go("/vms?q=desk-b")
    page.get_by_role("link", name="desk-b").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", name="Stop desk-b?")).to_be_visible()
    page.get_by_label("By cutting the power").check()
    page.get_by_role("button", name="Stop").click()
    expect(page).to_have_url(re.compile("/operations/"))
    expect(page.get_by_role("heading", name=re.compile("done"))).to_be_visible()
    assert cli.ok("vm", "show", "desk-b", "-o", "json").json["power"] == "shutoff"
    operator.go("/vms/desk-b")
    cli.ok("vm", "start", "desk-b")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()


WANTED = """\
apiVersion: vgpumgr/v1
kind: VM
name: typed
vcpus: 1
memory: 1GiB
gpus: [{profile: T4-8Q}]
"""


def test_a_file_is_typed_planned_and_applied_while_it_is_watched(
    operator: Visitor, cli: Cli
) -> None:
    page = operator.page
    operator.go("/apply")
    page.get_by_label("Text").fill(WANTED.replace("vcpus", "vcpu"))
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_role("alert")).to_contain_text("vcpu")
    expect(page.get_by_label("Text")).to_have_value(WANTED.replace("vcpus", "vcpu"))
    page.get_by_label("Text").fill(WANTED)
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_role("listitem").filter(has_text="create typed")).to_be_visible()
    assert "typed" not in [each["name"] for each in cli.items("vm", "list")]
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("/operations/"))
    expect(page.get_by_role("heading", name=re.compile("done"))).to_be_visible(timeout=30_000)
    assert cli.ok("vm", "show", "typed", "-o", "json").json["power"] == "running"
    cli.ok("vm", "delete", "typed", "-y", "--force")


def test_an_image_is_uploaded_and_imported(
    operator: Visitor, api: ApiServer, tmp_path: Path
) -> None:
    page, file = operator.page, tmp_path / "disk.qcow2"
    file.write_bytes(qcow2())
    with file.open("ab") as more:
        more.truncate(20 << 20)
    operator.go("/images")
    page.get_by_role("link", name="Upload an image").click()
    page.get_by_label("File").set_input_files(file)
    page.get_by_label("Name").fill("sent")
    page.get_by_role("button", name="Upload").click()
    expect(page).to_have_url(re.compile("/operations/"), timeout=60_000)
    expect(page.get_by_role("heading", name=re.compile("done"))).to_be_visible(timeout=60_000)
    assert (
        api.ask("GET", "/v1/images/sent@1").body["sha256"] == sha256(file.read_bytes()).hexdigest()
    )


def test_a_screen_is_opened_and_comes_back_after_a_cut(
    operator: Visitor, api: ApiServer, cli: Cli
) -> None:
    page = operator.page
    operator.go("/vms/desk-a/screen")
    expect(page.locator("#console-state")).to_have_text("Connected.")
    picture = page.locator("#screen canvas")
    until(lambda: colours(picture) > 2, "a picture")
    operator.expected = ("WebSocket connection", "Failed to fetch", "willReadFrequently")
    api.kill()
    api.start()
    expect(page.locator("#console-state")).to_have_text("Connected.", timeout=60_000)
    until(lambda: colours(picture) > 2, "a picture again")
    events = [each["event"] for each in cli.items("audit", "list", "--vm", "desk-a")]
    assert sum(each.startswith("ticket.") for each in events) >= 3, events


def colours(picture: Locator) -> int:
    """How many colours it has, of points here and there."""
    return int(picture.evaluate(_COUNT))


_COUNT = """canvas => {
  const {width, height} = canvas;
  if (!width) return 0;
  const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const found = new Set();
  for (let at = 0; at < data.length; at += 4 * 997)
    found.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
  return found.size;
}"""


def test_a_serial_console_takes_keys(operator: Visitor) -> None:
    page = operator.page
    operator.go("/vms/desk-a/serial")
    expect(page.locator("#console-state")).to_have_text("Connected.")
    page.locator("#serial").press_sequentially("echo typed-here\n")
    expect(page.locator("#serial")).to_contain_text("typed-here")


SAID = "a \x1b[31mred\x1b[0m <b>x</b>\r\nabc\rX\x1b[K\n\x1b[1;4;38;5;27mblue\x1b[48;5;1"
"""What a guest may say: colours, markup, a line written over, a sequence that is cut in two."""


def test_a_guests_colours_are_shown_and_its_markup_is_text(operator: Visitor) -> None:
    operator.go("/vms/desk-a/serial")
    shown = operator.page.evaluate(_SHOWN, [SAID, "60mC\x1b[7mI\x1b[mP"])
    assert shown == [
        "a |ink-1:red| <b>x</b>\n",
        "X\n",
        "ink-12 bold underlined:blue|ink-12 ground-1 bold underlined:C"
        "|ink-1 ground-12 bold underlined:I|P",
    ]


_SHOWN = """async (pieces) => {
  const script = document.querySelector("script[src$='serial.js']").src;
  const {SerialScreen} = await import(script.replace("serial.js", "serial_screen.js"));
  const place = document.createElement("pre");
  const screen = new SerialScreen(place);
  for (const each of pieces) screen.show(each);
  return [...place.children].map((line) => [...line.childNodes].map(
    (each) => (each.className ? `${each.className}:` : "") + each.textContent).join("|")
    .replace(/[|](\\n)?$/, "$1"));
}"""


def test_a_page_that_slept_is_brought_up_to_date(operator: Visitor, cli: Cli) -> None:
    page = operator.page
    operator.go("/vms/plain")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.wait_for_timeout(500)
    operator.expected = ("Failed to fetch",)
    page.context.set_offline(True)
    cli.ok("vm", "stop", "plain", "--force")
    page.wait_for_timeout(1500)
    page.context.set_offline(False)
    expect(page.get_by_role("button", name="Start")).to_be_visible()
    operator.faults[:] = [
        each for each in operator.faults if "ERR_INTERNET_DISCONNECTED" not in each
    ]
    cli.ok("vm", "start", "plain")


def test_who_logs_out_is_out(operator: Visitor) -> None:
    page = operator.page
    operator.go("/me")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.context.cookies() == []


def test_a_connect_file_is_saved(operator: Visitor, cli: Cli, tmp_path: Path) -> None:
    cli.ok("apply", "-f", cli.documents(vm("rdp-a", agent=True)))
    host = cli.ok("vm", "show", "rdp-a", "-o", "json").json["host"]
    cli.ok("sim", "inject", host, "guest", "rdp-a", "address", "10.1.2.3")
    page = operator.page
    operator.go("/vms/rdp-a")
    page.get_by_role("button", name="Connect file").click()
    page.get_by_label("Port").fill("3390")
    page.get_by_role("button", name="Make it").click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save rdp-a.rdp").click()
    assert saved.value.suggested_filename == "rdp-a.rdp"
    saved.value.save_as(tmp_path / "rdp-a.rdp")
    assert "full address:s:10.1.2.3:3390\r\n" in (tmp_path / "rdp-a.rdp").read_bytes().decode()
    cli.ok("vm", "delete", "rdp-a", "-y", "--force")
