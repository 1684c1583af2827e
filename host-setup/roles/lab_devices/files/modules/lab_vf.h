/* SPDX-License-Identifier: GPL-2.0 */
/* A VF that carries a vGPU by itself, as under NVIDIA's vendor-specific VFIO framework. */
#ifndef VGPUMGR_LAB_VF_H
#define VGPUMGR_LAB_VF_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/vfio_pci_core.h>

#define LAB_VF_DRIVER		"vgpumgr_lab_vf"
#define LAB_MOST_PARAMS		1024

/* All but core is under lab_vf_lock; type 0 is none, closed_at counts in jiffies. */
struct lab_vf {
	struct vfio_pci_core_device core;
	struct list_head node;
	u32 type;
	unsigned int start;
	bool open;
	bool was_open;
	unsigned long closed_at;
	char params[LAB_MOST_PARAMS + 1];
};

extern struct mutex lab_vf_lock;
extern struct pci_driver lab_vf_pci_driver;
extern const struct attribute_group *lab_vf_groups[];

void lab_vf_add(struct lab_vf *vf);
void lab_vf_remove(struct lab_vf *vf);

#endif
