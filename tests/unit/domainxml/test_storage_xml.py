"""What libvirt's XML says of pools and volumes."""

from __future__ import annotations

import pytest

from vgpumgr.domainxml.storage_xml import PoolPlace, pool_place, volume_format
from vgpumgr.model.domain import PoolSource

DIR = "<pool type='dir'><name>p</name><target><path>/srv/p</path></target></pool>"
NFS = """<pool type='netfs'><name>p</name><source><host name='nas'/><dir path='/export/vms'/>
  <format type='nfs'/></source><target><path>/srv/p</path></target></pool>"""
LVM = """<pool type='logical'><name>p</name><source><device path='/dev/sdb'/><name>vg0</name>
  <format type='lvm2'/></source><target><path>/dev/vg0</path></target></pool>"""
RBD = """<pool type='rbd'><name>p</name><source><host name='m1' port='6789'/><host name='fe80::1'
  port='3300'/><host name='m3'/><name>vms</name><auth type='ceph' username='vm'>
  <secret uuid='5b4ee2a6-5a1c-4e0c-8f1e-3c8f6b2c9d11'/></auth></source></pool>"""
USAGE = """<pool type='rbd'><source><host name='m1'/><name>vms</name>
  <auth type='ceph' username='vm'><secret usage='ceph vm'/></auth></source></pool>"""


@pytest.mark.parametrize(
    ("xml", "place"),
    [
        (DIR, PoolPlace("dir", "/srv/p", PoolSource())),
        (NFS, PoolPlace("netfs", "/srv/p", PoolSource(hosts=("nas",), name="/export/vms"))),
        (LVM, PoolPlace("logical", "/dev/vg0", PoolSource(name="vg0"))),
        (
            RBD,
            PoolPlace(
                "rbd",
                "vms",
                PoolSource(
                    hosts=("m1:6789", "[fe80::1]:3300", "m3"),
                    name="vms",
                    user="vm",
                    secret="5b4ee2a6-5a1c-4e0c-8f1e-3c8f6b2c9d11",
                ),
            ),
        ),
        (
            USAGE,
            PoolPlace(
                "rbd", "vms", PoolSource(hosts=("m1",), name="vms", user="vm", secret="ceph vm")
            ),
        ),
    ],
)
def test_a_pool_says_where_its_volumes_lie(xml: str, place: PoolPlace) -> None:
    assert pool_place(xml) == place


@pytest.mark.parametrize("xml", ["", "<volume/>", "<!DOCTYPE pool><pool/>"])
def test_what_is_no_pool_is_refused(xml: str) -> None:
    with pytest.raises(ValueError):
        pool_place(xml)


def test_a_volume_without_a_format_is_raw() -> None:
    assert volume_format("<volume><target/></volume>") == ("raw", None)
    laid = "<volume><target><format type='qcow2'/></target><backingStore><path>/b</path>"
    assert volume_format(f"{laid}</backingStore></volume>") == ("qcow2", "/b")
