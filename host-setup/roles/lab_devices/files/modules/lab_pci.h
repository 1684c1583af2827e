/* SPDX-License-Identifier: GPL-2.0 */
/* PCI functions that a module parameter names: "0000:03:00.0". */
#ifndef VGPUMGR_LAB_PCI_H
#define VGPUMGR_LAB_PCI_H

#include <linux/device.h>
#include <linux/kernel.h>
#include <linux/pci.h>
#include <linux/string.h>

#define LAB_MAX_FUNCTIONS 8

/* The function of that address, with a reference; NULL where there is none. */
static inline struct pci_dev *lab_find(const char *address)
{
	unsigned int domain, bus, slot, function;

	if (sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) {
		pr_err("%s is no PCI address\n", address);
		return NULL;
	}
	return pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, function));
}

/* An empty name clears it. */
static inline int lab_override(struct pci_dev *pdev, const char *driver)
{
#ifdef LAB_OVERRIDE_IN_DEVICE
	return device_set_driver_override(&pdev->dev, driver);
#else
	return driver_set_override(&pdev->dev, &pdev->driver_override, driver, strlen(driver));
#endif
}

#endif
