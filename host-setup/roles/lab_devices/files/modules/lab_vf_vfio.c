// SPDX-License-Identifier: GPL-2.0
/*
 * The VFIO driver of VFs that carry vGPUs: vfio-pci's own mechanics, but a VF without a type
 * cannot be opened (ENODEV), and the driver knows while a guest has one open.
 */
#include <linux/iommufd.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/version.h>

#include "lab_vf.h"

static struct lab_vf *to_lab_vf(struct vfio_device *vdev)
{
	return container_of(vdev, struct lab_vf, core.vdev);
}

static int lab_vf_take(struct lab_vf *vf)
{
	int err = 0;

	mutex_lock(&lab_vf_lock);
	if (vf->type)
		vf->open = true;
	else
		err = -ENODEV;
	mutex_unlock(&lab_vf_lock);
	return err;
}

static void lab_vf_let_go(struct lab_vf *vf)
{
	mutex_lock(&lab_vf_lock);
	vf->open = false;
	vf->was_open = true;
	vf->closed_at = jiffies;
	mutex_unlock(&lab_vf_lock);
}

static int lab_vf_open(struct vfio_device *vdev)
{
	struct lab_vf *vf = to_lab_vf(vdev);
	int err = lab_vf_take(vf);

	if (err)
		return err;
	err = vfio_pci_core_enable(&vf->core);
	if (err) {
		lab_vf_let_go(vf);
		return err;
	}
	vfio_pci_core_finish_enable(&vf->core);
	return 0;
}

static void lab_vf_close(struct vfio_device *vdev)
{
	vfio_pci_core_close_device(vdev);
	lab_vf_let_go(to_lab_vf(vdev));
}

static const struct vfio_device_ops lab_vf_ops = {
	.name = "vgpumgr-lab-vf",
	.init = vfio_pci_core_init_dev,
	.release = vfio_pci_core_release_dev,
	.open_device = lab_vf_open,
	.close_device = lab_vf_close,
	.ioctl = vfio_pci_core_ioctl,
	.device_feature = vfio_pci_core_ioctl_feature,
	.read = vfio_pci_core_read,
	.write = vfio_pci_core_write,
	.mmap = vfio_pci_core_mmap,
	.request = vfio_pci_core_request,
	.match = vfio_pci_core_match,
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	.bind_iommufd = vfio_iommufd_physical_bind,
	.unbind_iommufd = vfio_iommufd_physical_unbind,
	.attach_ioas = vfio_iommufd_physical_attach_ioas,
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	.detach_ioas = vfio_iommufd_physical_detach_ioas,
#endif
};

static int lab_vf_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct lab_vf *vf;
	int err;

	vf = vfio_alloc_device(lab_vf, core.vdev, &pdev->dev, &lab_vf_ops);
	if (IS_ERR(vf))
		return PTR_ERR(vf);
	dev_set_drvdata(&pdev->dev, &vf->core);
	lab_vf_add(vf);
	err = vfio_pci_core_register_device(&vf->core);
	if (err) {
		lab_vf_remove(vf);
		vfio_put_device(&vf->core.vdev);
	}
	return err;
}

static void lab_vf_pci_remove(struct pci_dev *pdev)
{
	struct lab_vf *vf = container_of(dev_get_drvdata(&pdev->dev), struct lab_vf, core);

	vfio_pci_core_unregister_device(&vf->core);
	lab_vf_remove(vf);
	vfio_put_device(&vf->core.vdev);
}

/* No id: a VF comes by driver_override alone. */
static const struct pci_device_id lab_vf_no_ids[] = { {} };

struct pci_driver lab_vf_pci_driver = {
	.name = LAB_VF_DRIVER,
	.id_table = lab_vf_no_ids,
	.probe = lab_vf_probe,
	.remove = lab_vf_pci_remove,
	.err_handler = &vfio_pci_core_err_handlers,
	.driver_managed_dma = true,
	.dev_groups = lab_vf_groups,
};
