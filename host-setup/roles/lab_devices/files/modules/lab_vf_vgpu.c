// SPDX-License-Identifier: GPL-2.0
/*
 * The nvidia/ files of a VF. The VFs of one PF share a framebuffer; the first vGPU fixes the size
 * of the others, unless sizes mix. Answers are those of NVIDIA's driver (gpu-facts 5 and 6;
 * docs/driver-behaviour.md 5): every refusal of the resource manager is EIO.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "lab_vf.h"

#define LAB_FB_GIB	16
#define LAB_NOWHERE	LAB_FB_GIB

static bool mixed;
module_param(mixed, bool, 0444);
MODULE_PARM_DESC(mixed, "vGPUs of different sizes share a PF, each at a multiple of its size");

static unsigned int plugin_ms = 1000;
module_param(plugin_ms, uint, 0644);
MODULE_PARM_DESC(plugin_ms, "how long a vGPU stays busy after its guest has closed it");

struct lab_vf_type {
	u32 id;
	unsigned int gib;
	const char *name;
};

static const struct lab_vf_type lab_vf_types[] = {
	{ 801, 1, "LAB V16-1Q" },
	{ 802, 2, "LAB V16-2Q" },
	{ 803, 4, "LAB V16-4Q" },
	{ 804, 8, "LAB V16-8Q" },
	{ 805, 16, "LAB V16-16Q" },
	{ 806, 2, "LAB V16-2A" },
};

DEFINE_MUTEX(lab_vf_lock);
static LIST_HEAD(lab_vfs);

void lab_vf_add(struct lab_vf *vf)
{
	mutex_lock(&lab_vf_lock);
	list_add(&vf->node, &lab_vfs);
	mutex_unlock(&lab_vf_lock);
}

void lab_vf_remove(struct lab_vf *vf)
{
	mutex_lock(&lab_vf_lock);
	list_del(&vf->node);
	mutex_unlock(&lab_vf_lock);
}

static struct lab_vf *lab_vf_of(struct device *dev)
{
	return container_of(dev_get_drvdata(dev), struct lab_vf, core);
}

static const struct lab_vf_type *lab_type(u32 id)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lab_vf_types); i++)
		if (lab_vf_types[i].id == id)
			return &lab_vf_types[i];
	return NULL;
}

static unsigned long lab_slots(unsigned int start, unsigned int gib)
{
	return GENMASK(start + gib - 1, start);
}

/* The slots of the other vGPUs of the same PF; all of them where one has another size. */
static unsigned long lab_taken(struct lab_vf *vf, unsigned int gib)
{
	const struct lab_vf_type *type;
	unsigned long taken = 0;
	struct lab_vf *other;

	list_for_each_entry(other, &lab_vfs, node) {
		if (other == vf || !other->type ||
		    pci_physfn(other->core.pdev) != pci_physfn(vf->core.pdev))
			continue;
		type = lab_type(other->type);
		if (!mixed && type->gib != gib)
			return lab_slots(0, LAB_FB_GIB);
		taken |= lab_slots(other->start, type->gib);
	}
	return taken;
}

static unsigned int lab_first_start(struct lab_vf *vf, unsigned int gib)
{
	unsigned long taken = lab_taken(vf, gib);
	unsigned int start;

	for (start = 0; start < LAB_FB_GIB; start += gib)
		if (!(taken & lab_slots(start, gib)))
			return start;
	return LAB_NOWHERE;
}

static int lab_create(struct lab_vf *vf, u32 id)
{
	const struct lab_vf_type *type = lab_type(id);
	unsigned int start = type ? lab_first_start(vf, type->gib) : LAB_NOWHERE;

	if (start == LAB_NOWHERE)
		return -EIO;
	vf->type = id;
	vf->start = start;
	vf->was_open = false;
	vf->params[0] = '\0';
	return 0;
}

static int lab_destroy(struct lab_vf *vf)
{
	unsigned long ended = vf->closed_at + msecs_to_jiffies(READ_ONCE(plugin_ms));

	if (vf->open)
		return -EPERM;
	if (vf->was_open && time_before(jiffies, ended))
		return -EBUSY;
	vf->type = 0;
	return 0;
}

/* Whether the parts of a vGPU may be changed now. */
static int lab_may_change(struct lab_vf *vf)
{
	if (!vf->type)
		return -ENXIO;
	return vf->open ? -EPERM : 0;
}

static ssize_t creatable_vgpu_types_show(struct device *dev, struct device_attribute *attr,
					 char *buf)
{
	struct lab_vf *vf = lab_vf_of(dev);
	int length = sysfs_emit(buf, "ID    : vGPU Name\n");
	unsigned int i;

	mutex_lock(&lab_vf_lock);
	for (i = 0; !vf->type && i < ARRAY_SIZE(lab_vf_types); i++)
		if (lab_first_start(vf, lab_vf_types[i].gib) != LAB_NOWHERE)
			length += sysfs_emit_at(buf, length, "%-5u : %s\n", lab_vf_types[i].id,
						lab_vf_types[i].name);
	mutex_unlock(&lab_vf_lock);
	return length;
}
static DEVICE_ATTR_RO(creatable_vgpu_types);

static ssize_t current_vgpu_type_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(lab_vf_of(dev)->type));
}

static ssize_t current_vgpu_type_store(struct device *dev, struct device_attribute *attr,
				       const char *buf, size_t count)
{
	struct lab_vf *vf = lab_vf_of(dev);
	u32 wanted;
	int err = kstrtou32(buf, 10, &wanted);

	if (err)
		return err;
	mutex_lock(&lab_vf_lock);
	if (!wanted == !vf->type)
		err = -EPERM;
	else
		err = wanted ? lab_create(vf, wanted) : lab_destroy(vf);
	mutex_unlock(&lab_vf_lock);
	return err ?: count;
}
static DEVICE_ATTR_RW(current_vgpu_type);

static ssize_t gpu_instance_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	if (!READ_ONCE(lab_vf_of(dev)->type))
		return -ENXIO;
	return sysfs_emit(buf, "Not Applicable\n");
}
static DEVICE_ATTR_RO(gpu_instance_id);

static ssize_t placement_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lab_vf *vf = lab_vf_of(dev);

	if (!READ_ONCE(vf->type))
		return -ENXIO;
	if (!mixed)
		return sysfs_emit(buf, "Not Applicable\n");
	return sysfs_emit(buf, "%u\n", READ_ONCE(vf->start));
}

static int lab_move(struct lab_vf *vf, unsigned int start)
{
	unsigned int gib = lab_type(vf->type)->gib;

	if (!mixed || start >= LAB_FB_GIB || start % gib)
		return -EINVAL;
	if (lab_taken(vf, gib) & lab_slots(start, gib))
		return -EBUSY;
	vf->start = start;
	return 0;
}

static ssize_t placement_id_store(struct device *dev, struct device_attribute *attr,
				  const char *buf, size_t count)
{
	struct lab_vf *vf = lab_vf_of(dev);
	u32 start;
	int err, number = kstrtou32(buf, 10, &start);

	mutex_lock(&lab_vf_lock);
	err = lab_may_change(vf) ?: number ?: lab_move(vf, start);
	mutex_unlock(&lab_vf_lock);
	return err ?: count;
}
static DEVICE_ATTR_RW(placement_id);

static ssize_t vgpu_params_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lab_vf *vf = lab_vf_of(dev);
	ssize_t length = -ENXIO;

	mutex_lock(&lab_vf_lock);
	if (vf->type)
		length = sysfs_emit(buf, "%s\n", vf->params);
	mutex_unlock(&lab_vf_lock);
	return length;
}

static ssize_t vgpu_params_store(struct device *dev, struct device_attribute *attr,
				 const char *buf, size_t count)
{
	struct lab_vf *vf = lab_vf_of(dev);
	int err;

	if (count > LAB_MOST_PARAMS)
		return -E2BIG;
	mutex_lock(&lab_vf_lock);
	err = lab_may_change(vf);
	/* A single space clears them. */
	if (!err)
		strscpy(vf->params, skip_spaces(buf), sizeof(vf->params));
	strim(vf->params);
	mutex_unlock(&lab_vf_lock);
	return err ?: count;
}
static DEVICE_ATTR_RW(vgpu_params);

static struct attribute *lab_vf_attributes[] = {
	&dev_attr_creatable_vgpu_types.attr,
	&dev_attr_current_vgpu_type.attr,
	&dev_attr_gpu_instance_id.attr,
	&dev_attr_placement_id.attr,
	&dev_attr_vgpu_params.attr,
	NULL,
};

static const struct attribute_group lab_vf_group = {
	.name = "nvidia",
	.attrs = lab_vf_attributes,
};

const struct attribute_group *lab_vf_groups[] = { &lab_vf_group, NULL };
