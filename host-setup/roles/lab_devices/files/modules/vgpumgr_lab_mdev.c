// SPDX-License-Identifier: GPL-2.0
/*
 * An mdev parent that is a PCI device, as a GPU up to Turing is: libvirt lists PCI parents alone.
 *
 * Its types are called like a vendor's and share one framebuffer. The kernel puts the name of the
 * parent's driver before theirs, so the driver is called "lab": lab-701 is "LAB A16-1Q".
 *
 * An mdev is a PCI display without a screen: a configuration space, one BAR of plain memory, no
 * interrupt. Firmware and QEMU need no more.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/iommufd.h>
#include <linux/mdev.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vfio.h>
#include <linux/vmalloc.h>

#include "lab_pci.h"

#define LAB_DRIVER	"lab"
#define LAB_FB_GIB	16
#define LAB_CONFIG_SIZE	256
#define LAB_BAR_SIZE	SZ_64K
#define LAB_BAR_OFFSET	SZ_64K
#define LAB_VENDOR	0x1234
#define LAB_DEVICE	0x1a61

static char *parent;
module_param(parent, charp, 0444);
MODULE_PARM_DESC(parent, "address of the PCI device that becomes the mdev parent");

struct lab_type {
	struct mdev_type type;
	unsigned int gib;
	const char *resolution;
};

#define LAB_TYPE(number, profile, size, most_pixels) {				\
	.type = { .sysfs_name = number, .pretty_name = "LAB A16-" profile },	\
	.gib = size, .resolution = most_pixels,					\
}

static const struct lab_type lab_types[] = {
	LAB_TYPE("701", "1Q", 1, "5120x2880"),
	LAB_TYPE("702", "2Q", 2, "7680x4320"),
	LAB_TYPE("703", "4Q", 4, "7680x4320"),
	LAB_TYPE("704", "8Q", 8, "7680x4320"),
	LAB_TYPE("705", "16Q", 16, "7680x4320"),
};

/*
 * Made anew each time the driver takes the device: registered kobjects, which mdev's types have
 * inside, cannot be used twice.
 */
struct lab_board {
	struct mdev_parent parent;
	struct lab_type types[ARRAY_SIZE(lab_types)];
	struct mdev_type *list[ARRAY_SIZE(lab_types)];
};

static struct pci_dev *lab_pdev;

static DEFINE_MUTEX(lab_fb_lock);
static unsigned int lab_fb_free = LAB_FB_GIB;

struct lab_vgpu {
	struct vfio_device vdev;
	struct mutex lock;
	unsigned int gib;
	u8 config[LAB_CONFIG_SIZE] __aligned(4);
	u8 *bar;
};

static const struct lab_type *to_lab_type(struct mdev_type *type)
{
	return container_of(type, struct lab_type, type);
}

static struct lab_vgpu *to_lab_vgpu(struct vfio_device *vdev)
{
	return container_of(vdev, struct lab_vgpu, vdev);
}

static bool lab_fb_take(unsigned int gib)
{
	bool fits;

	mutex_lock(&lab_fb_lock);
	fits = gib <= lab_fb_free;
	if (fits)
		lab_fb_free -= gib;
	mutex_unlock(&lab_fb_lock);
	return fits;
}

static void lab_fb_give_back(unsigned int gib)
{
	mutex_lock(&lab_fb_lock);
	lab_fb_free += gib;
	mutex_unlock(&lab_fb_lock);
}

/* All but what a guest may set: its command, the BAR's address, the interrupt line. */
static void lab_pin_config(struct lab_vgpu *vgpu)
{
	__le32 *dword = (__le32 *)vgpu->config;
	u32 command = le32_to_cpu(dword[PCI_COMMAND / 4]) & 0xffff;
	u32 bar = le32_to_cpu(dword[PCI_BASE_ADDRESS_0 / 4]) & ~(LAB_BAR_SIZE - 1);
	u32 line = le32_to_cpu(dword[PCI_INTERRUPT_LINE / 4]) & 0xff;

	memset(dword, 0, LAB_CONFIG_SIZE);
	dword[PCI_VENDOR_ID / 4] = cpu_to_le32(LAB_DEVICE << 16 | LAB_VENDOR);
	dword[PCI_COMMAND / 4] = cpu_to_le32(command);
	dword[PCI_CLASS_REVISION / 4] = cpu_to_le32(PCI_CLASS_DISPLAY_3D << 16);
	dword[PCI_BASE_ADDRESS_0 / 4] = cpu_to_le32(bar | PCI_BASE_ADDRESS_MEM_PREFETCH);
	dword[PCI_SUBSYSTEM_VENDOR_ID / 4] = cpu_to_le32(LAB_DEVICE << 16 | LAB_VENDOR);
	dword[PCI_INTERRUPT_LINE / 4] = cpu_to_le32(line);
}

static int lab_init_dev(struct vfio_device *vdev)
{
	struct lab_vgpu *vgpu = to_lab_vgpu(vdev);
	const struct lab_type *type = to_lab_type(to_mdev_device(vdev->dev)->type);

	vgpu->bar = vzalloc(LAB_BAR_SIZE);
	if (!vgpu->bar)
		return -ENOMEM;
	if (!lab_fb_take(type->gib)) {
		vfree(vgpu->bar);
		return -ENOSPC;
	}
	vgpu->gib = type->gib;
	mutex_init(&vgpu->lock);
	lab_pin_config(vgpu);
	return 0;
}

static void lab_release_dev(struct vfio_device *vdev)
{
	struct lab_vgpu *vgpu = to_lab_vgpu(vdev);

	lab_fb_give_back(vgpu->gib);
	vfree(vgpu->bar);
}

/* Where an access at pos leads, and how far it may go; NULL for nowhere. */
static u8 *lab_at(struct lab_vgpu *vgpu, loff_t pos, size_t *count)
{
	if (pos >= 0 && pos < LAB_CONFIG_SIZE) {
		*count = min_t(size_t, *count, LAB_CONFIG_SIZE - pos);
		return vgpu->config + pos;
	}
	if (pos >= LAB_BAR_OFFSET && pos < LAB_BAR_OFFSET + LAB_BAR_SIZE) {
		*count = min_t(size_t, *count, LAB_BAR_OFFSET + LAB_BAR_SIZE - pos);
		return vgpu->bar + (pos - LAB_BAR_OFFSET);
	}
	return NULL;
}

static ssize_t lab_read(struct vfio_device *vdev, char __user *to, size_t count, loff_t *pos)
{
	struct lab_vgpu *vgpu = to_lab_vgpu(vdev);
	unsigned long left;
	u8 *at = lab_at(vgpu, *pos, &count);

	if (!at)
		return -EINVAL;
	mutex_lock(&vgpu->lock);
	left = copy_to_user(to, at, count);
	mutex_unlock(&vgpu->lock);
	if (left)
		return -EFAULT;
	*pos += count;
	return count;
}

static ssize_t lab_write(struct vfio_device *vdev, const char __user *from, size_t count,
			 loff_t *pos)
{
	struct lab_vgpu *vgpu = to_lab_vgpu(vdev);
	unsigned long left;
	u8 *at = lab_at(vgpu, *pos, &count);

	if (!at)
		return -EINVAL;
	mutex_lock(&vgpu->lock);
	left = copy_from_user(at, from, count);
	lab_pin_config(vgpu);
	mutex_unlock(&vgpu->lock);
	if (left)
		return -EFAULT;
	*pos += count;
	return count;
}

static long lab_get_info(void __user *arg)
{
	unsigned long size = offsetofend(struct vfio_device_info, num_irqs);
	struct vfio_device_info info;

	if (copy_from_user(&info, arg, size))
		return -EFAULT;
	if (info.argsz < size)
		return -EINVAL;
	info.flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
	info.num_regions = VFIO_PCI_NUM_REGIONS;
	info.num_irqs = VFIO_PCI_NUM_IRQS;
	return copy_to_user(arg, &info, size) ? -EFAULT : 0;
}

static long lab_get_region_info(void __user *arg)
{
	unsigned long size = offsetofend(struct vfio_region_info, offset);
	struct vfio_region_info info;

	if (copy_from_user(&info, arg, size))
		return -EFAULT;
	if (info.argsz < size || info.index >= VFIO_PCI_NUM_REGIONS)
		return -EINVAL;
	info.flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
	switch (info.index) {
	case VFIO_PCI_CONFIG_REGION_INDEX:
		info.offset = 0;
		info.size = LAB_CONFIG_SIZE;
		break;
	case VFIO_PCI_BAR0_REGION_INDEX:
		info.offset = LAB_BAR_OFFSET;
		info.size = LAB_BAR_SIZE;
		break;
	default:
		info.flags = 0;
		info.offset = 0;
		info.size = 0;
	}
	return copy_to_user(arg, &info, size) ? -EFAULT : 0;
}

static long lab_get_irq_info(void __user *arg)
{
	unsigned long size = offsetofend(struct vfio_irq_info, count);
	struct vfio_irq_info info;

	if (copy_from_user(&info, arg, size))
		return -EFAULT;
	if (info.argsz < size || info.index >= VFIO_PCI_NUM_IRQS)
		return -EINVAL;
	info.flags = 0;
	info.count = 0;
	return copy_to_user(arg, &info, size) ? -EFAULT : 0;
}

static long lab_reset(struct lab_vgpu *vgpu)
{
	mutex_lock(&vgpu->lock);
	memset(vgpu->config, 0, LAB_CONFIG_SIZE);
	memset(vgpu->bar, 0, LAB_BAR_SIZE);
	lab_pin_config(vgpu);
	mutex_unlock(&vgpu->lock);
	return 0;
}

static long lab_ioctl(struct vfio_device *vdev, unsigned int command, unsigned long arg)
{
	switch (command) {
	case VFIO_DEVICE_GET_INFO:
		return lab_get_info((void __user *)arg);
	case VFIO_DEVICE_GET_REGION_INFO:
		return lab_get_region_info((void __user *)arg);
	case VFIO_DEVICE_GET_IRQ_INFO:
		return lab_get_irq_info((void __user *)arg);
	case VFIO_DEVICE_RESET:
		return lab_reset(to_lab_vgpu(vdev));
	default:
		return -ENOTTY;
	}
}

static const struct vfio_device_ops lab_ops = {
	.name = "vgpumgr-lab-mdev",
	.init = lab_init_dev,
	.release = lab_release_dev,
	.read = lab_read,
	.write = lab_write,
	.ioctl = lab_ioctl,
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	.bind_iommufd = vfio_iommufd_emulated_bind,
	.unbind_iommufd = vfio_iommufd_emulated_unbind,
	.attach_ioas = vfio_iommufd_emulated_attach_ioas,
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	.detach_ioas = vfio_iommufd_emulated_detach_ioas,
#endif
};

static int lab_mdev_probe(struct mdev_device *mdev)
{
	struct lab_vgpu *vgpu;
	int err;

	vgpu = vfio_alloc_device(lab_vgpu, vdev, &mdev->dev, &lab_ops);
	if (IS_ERR(vgpu))
		return PTR_ERR(vgpu);
	err = vfio_register_emulated_iommu_dev(&vgpu->vdev);
	if (err) {
		vfio_put_device(&vgpu->vdev);
		return err;
	}
	dev_set_drvdata(&mdev->dev, vgpu);
	return 0;
}

static void lab_mdev_remove(struct mdev_device *mdev)
{
	struct lab_vgpu *vgpu = dev_get_drvdata(&mdev->dev);

	vfio_unregister_group_dev(&vgpu->vdev);
	vfio_put_device(&vgpu->vdev);
}

static unsigned int lab_get_available(struct mdev_type *type)
{
	return READ_ONCE(lab_fb_free) / to_lab_type(type)->gib;
}

static ssize_t lab_show_description(struct mdev_type *type, char *buf)
{
	const struct lab_type *kind = to_lab_type(type);

	return sysfs_emit(buf, "num_heads=4, frl_config=60, framebuffer=%uM, max_resolution=%s, "
			  "max_instance=%u\n", kind->gib * 1024, kind->resolution,
			  LAB_FB_GIB / kind->gib);
}

static struct mdev_driver lab_mdev_driver = {
	.device_api = VFIO_DEVICE_API_PCI_STRING,
	.probe = lab_mdev_probe,
	.remove = lab_mdev_remove,
	.get_available = lab_get_available,
	.show_description = lab_show_description,
	.driver = {
		.name = "vgpumgr_lab_mdev",
		.owner = THIS_MODULE,
		.mod_name = KBUILD_MODNAME,
	},
};

static int lab_pci_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct lab_board *board;
	unsigned int i;
	int err;

	board = kzalloc(sizeof(*board), GFP_KERNEL);
	if (!board)
		return -ENOMEM;
	memcpy(board->types, lab_types, sizeof(lab_types));
	for (i = 0; i < ARRAY_SIZE(lab_types); i++)
		board->list[i] = &board->types[i].type;
	err = mdev_register_parent(&board->parent, &pdev->dev, &lab_mdev_driver, board->list,
				   ARRAY_SIZE(lab_types));
	if (err) {
		kfree(board);
		return err;
	}
	pci_set_drvdata(pdev, board);
	return 0;
}

static void lab_pci_remove(struct pci_dev *pdev)
{
	struct lab_board *board = pci_get_drvdata(pdev);

	mdev_unregister_parent(&board->parent);
	kfree(board);
}

/* No id: a device comes by driver_override alone, as displays of the same id stay with bochs-drm. */
static const struct pci_device_id lab_no_ids[] = { {} };

static struct pci_driver lab_pci_driver = {
	.name = LAB_DRIVER,
	.id_table = lab_no_ids,
	.probe = lab_pci_probe,
	.remove = lab_pci_remove,
};

static int __init lab_init(void)
{
	int err;

	lab_pdev = parent ? lab_find(parent) : NULL;
	if (!lab_pdev)
		return -ENODEV;
	err = mdev_register_driver(&lab_mdev_driver);
	if (err)
		goto put;
	err = lab_override(lab_pdev, LAB_DRIVER);
	if (err)
		goto unregister;
	/* bochs-drm was there first, or not: the order in which modules load does not matter. */
	device_release_driver(&lab_pdev->dev);
	err = pci_register_driver(&lab_pci_driver);
	if (!err)
		return 0;
	lab_override(lab_pdev, "");
unregister:
	mdev_unregister_driver(&lab_mdev_driver);
put:
	pci_dev_put(lab_pdev);
	return err;
}

static void __exit lab_exit(void)
{
	pci_unregister_driver(&lab_pci_driver);
	lab_override(lab_pdev, "");
	mdev_unregister_driver(&lab_mdev_driver);
	pci_dev_put(lab_pdev);
}

module_init(lab_init);
module_exit(lab_exit);

MODULE_DESCRIPTION("vgpumgr lab: an mdev parent on a PCI device, with types like a vendor's");
MODULE_AUTHOR("vgpumgr");
MODULE_LICENSE("GPL");
