// SPDX-License-Identifier: GPL-2.0
/*
 * Shows network functions with SR-IOV, and their VFs, as display controllers; their drivers match
 * by id and do not mind. The VFs of some of them carry vGPUs (lab_vf_vfio.c, lab_vf_vgpu.c).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/notifier.h>

#include "lab_pci.h"
#include "lab_vf.h"

#define LAB_CLASS (PCI_CLASS_DISPLAY_3D << 8)

static char *display[LAB_MAX_FUNCTIONS];
static int displays;
module_param_array(display, charp, &displays, 0444);
MODULE_PARM_DESC(display, "addresses of PFs that are shown as display controllers, with their VFs");

static char *vendor[LAB_MAX_FUNCTIONS];
static int vendors;
module_param_array(vendor, charp, &vendors, 0444);
MODULE_PARM_DESC(vendor, "addresses of those PFs whose VFs carry vGPUs");

static bool lab_is_listed(struct pci_dev *pdev, char **list, int count)
{
	int i;

	for (i = 0; i < count; i++)
		if (!strcmp(pci_name(pdev), list[i]))
			return true;
	return false;
}

static void lab_show(struct pci_dev *pdev)
{
	struct pci_dev *pf = pci_physfn(pdev);

	if (!lab_is_listed(pf, display, displays))
		return;
	pdev->class = LAB_CLASS;
	if (!pdev->is_virtfn || !lab_is_listed(pf, vendor, vendors))
		return;
	/* Holds where sriov_drivers_autoprobe is 0 too: the kernel probes what has an override. */
	if (lab_override(pdev, LAB_VF_DRIVER))
		pci_err(pdev, "cannot be given to " LAB_VF_DRIVER "\n");
	device_release_driver(&pdev->dev);
}

static void lab_show_as_before(struct pci_dev *pdev)
{
	u32 class;

	if (!lab_is_listed(pci_physfn(pdev), display, displays))
		return;
	if (pdev->is_virtfn && lab_is_listed(pci_physfn(pdev), vendor, vendors))
		lab_override(pdev, "");
	pci_read_config_dword(pdev, PCI_CLASS_REVISION, &class);
	pdev->class = class >> 8;
}

static int lab_device_added(struct notifier_block *block, unsigned long event, void *data)
{
	if (event == BUS_NOTIFY_ADD_DEVICE)
		lab_show(to_pci_dev(data));
	return NOTIFY_DONE;
}

static struct notifier_block lab_notifier = { .notifier_call = lab_device_added };

static int __init lab_init(void)
{
	struct pci_dev *pdev = NULL;
	int err;

	err = bus_register_notifier(&pci_bus_type, &lab_notifier);
	if (err)
		return err;
	for_each_pci_dev(pdev)
		lab_show(pdev);
	err = pci_register_driver(&lab_vf_pci_driver);
	if (err)
		bus_unregister_notifier(&pci_bus_type, &lab_notifier);
	return err;
}

static void __exit lab_exit(void)
{
	struct pci_dev *pdev = NULL;

	pci_unregister_driver(&lab_vf_pci_driver);
	bus_unregister_notifier(&pci_bus_type, &lab_notifier);
	for_each_pci_dev(pdev)
		lab_show_as_before(pdev);
}

module_init(lab_init);
module_exit(lab_exit);

MODULE_DESCRIPTION("vgpumgr lab: SR-IOV functions as GPUs, VFs with a vendor's vGPU files");
MODULE_AUTHOR("vgpumgr");
MODULE_LICENSE("GPL");
