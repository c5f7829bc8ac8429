// Package volumerules has the rules for where volumes come from: for the file system or the disk of a pod's
// volume ([OfPod]) and of a persistent volume ([OfVolume]). The groups core and storage, and the rules of
// pods, share them.
package volumerules

import (
	"net"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// OfPod checks the source of a pod's volume if it is one of storage; those with files of
// the API are not. Paths of the same types are equal in both kinds of volumes.
func OfPod(at *field.Path, v *corev1.VolumeSource) field.ErrorList {
	switch {
	case v.HostPath != nil:
		return hostPath(at.Child("hostPath"), v.HostPath)
	case v.NFS != nil:
		return nfs(at.Child("nfs"), v.NFS)
	case v.CSI != nil:
		return check.Driver(at.Child("csi"), "driver", v.CSI.Driver)
	case v.ISCSI != nil:
		s := v.ISCSI
		return iscsi(at.Child("iscsi"), target{
			s.TargetPortal, s.IQN, s.Lun, s.InitiatorName, (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil,
		})
	case v.FC != nil:
		return fibre(at.Child("fc"), v.FC)
	case v.RBD != nil:
		return ceph(at.Child("rbd"), v.RBD.CephMonitors, &v.RBD.RBDImage)
	case v.CephFS != nil:
		return ceph(at.Child("cephfs"), v.CephFS.Monitors, nil)
	case v.Glusterfs != nil:
		return needs(at.Child("glusterfs"), "endpoints", v.Glusterfs.EndpointsName, "path", v.Glusterfs.Path)
	case v.FlexVolume != nil:
		return flex(at.Child("flexVolume"), v.FlexVolume.Driver, v.FlexVolume.Options)
	case v.AzureFile != nil:
		return needs(at.Child("azureFile"), "secretName", v.AzureFile.SecretName, "shareName", v.AzureFile.ShareName)
	case v.ScaleIO != nil:
		return needs(at.Child("scaleIO"), "gateway", v.ScaleIO.Gateway, "system", v.ScaleIO.System, "volumeName",
			v.ScaleIO.VolumeName)
	case v.Cinder != nil:
		errs := needs(at.Child("cinder"), "volumeID", v.Cinder.VolumeID)
		return append(errs, localSecret(at.Child("cinder"), v.Cinder.SecretRef)...)
	case v.StorageOS != nil:
		errs := storageOS(at.Child("storageos"), v.StorageOS.VolumeName, v.StorageOS.VolumeNamespace)
		return append(errs, localSecret(at.Child("storageos"), v.StorageOS.SecretRef)...)
	case v.GitRepo != nil:
		errs := needs(at.Child("gitRepo"), "repository", v.GitRepo.Repository)
		return append(errs, check.DescendingPath(at.Child("gitRepo"), "directory", v.GitRepo.Directory)...)
	}
	return disk(at, &corev1.PersistentVolumeSource{
		GCEPersistentDisk: v.GCEPersistentDisk, AWSElasticBlockStore: v.AWSElasticBlockStore, Quobyte: v.Quobyte,
		Flocker:   v.Flocker,
		AzureDisk: v.AzureDisk, VsphereVolume: v.VsphereVolume, PhotonPersistentDisk: v.PhotonPersistentDisk,
		PortworxVolume: v.PortworxVolume,
	})
}

// OfVolume checks the source of a persistent volume, whose name is given.
func OfVolume(at *field.Path, v *corev1.PersistentVolumeSource, name string) field.ErrorList {
	switch {
	case v.HostPath != nil:
		return hostPath(at.Child("hostPath"), v.HostPath)
	case v.NFS != nil:
		return nfs(at.Child("nfs"), v.NFS)
	case v.CSI != nil:
		return CSI(at.Child("csi"), v.CSI)
	case v.Local != nil:
		errs := needs(at.Child("local"), "path", v.Local.Path)
		return append(errs, check.NoBacksteps(at.Child("local"), "path", v.Local.Path)...)
	case v.ISCSI != nil:
		return persistentISCSI(at.Child("iscsi"), v.ISCSI, name)
	case v.FC != nil:
		return fibre(at.Child("fc"), v.FC)
	case v.RBD != nil:
		return ceph(at.Child("rbd"), v.RBD.CephMonitors, &v.RBD.RBDImage)
	case v.CephFS != nil:
		return ceph(at.Child("cephfs"), v.CephFS.Monitors, nil)
	case v.Glusterfs != nil:
		return needs(at.Child("glusterfs"), "endpoints", v.Glusterfs.EndpointsName, "path", v.Glusterfs.Path)
	case v.FlexVolume != nil:
		return flex(at.Child("flexVolume"), v.FlexVolume.Driver, v.FlexVolume.Options)
	case v.AzureFile != nil:
		return needs(at.Child("azureFile"), "secretName", v.AzureFile.SecretName, "shareName", v.AzureFile.ShareName)
	case v.ScaleIO != nil:
		return needs(at.Child("scaleIO"), "gateway", v.ScaleIO.Gateway, "system", v.ScaleIO.System, "volumeName",
			v.ScaleIO.VolumeName)
	case v.Cinder != nil:
		return needs(at.Child("cinder"), "volumeID", v.Cinder.VolumeID)
	case v.StorageOS != nil:
		return storageOS(at.Child("storageos"), v.StorageOS.VolumeName, v.StorageOS.VolumeNamespace)
	}
	return disk(at, v)
}

// CSI checks a volume of a CSI driver.
func CSI(at *field.Path, v *corev1.CSIPersistentVolumeSource) field.ErrorList {
	errs := check.Driver(at, "driver", v.Driver)
	errs = append(errs, needs(at, "volumeHandle", v.VolumeHandle)...)
	for _, secret := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", v.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", v.ControllerExpandSecretRef},
		{"nodePublishSecretRef", v.NodePublishSecretRef},
		{"nodeExpandSecretRef", v.NodeExpandSecretRef},
	} {
		if secret.ref != nil {
			errs = append(errs, check.Required(at.Child(secret.name), "name", secret.ref.Name, validation.IsDNS1123Subdomain)...)
			errs = append(errs,
				check.Required(at.Child(secret.name), "namespace", secret.ref.Namespace, validation.IsDNS1123Label)...)
		}
	}
	return errs
}

// needs requires texts; they are pairs of names and values.
func needs(at *field.Path, texts ...string) field.ErrorList {
	var errs field.ErrorList
	for i := 0; i < len(texts); i += 2 {
		errs = append(errs, check.Required(at, texts[i], texts[i+1], nil)...)
	}
	return errs
}

func localSecret(at *field.Path, ref *corev1.LocalObjectReference) field.ErrorList {
	if ref == nil {
		return nil
	}
	return needs(at.Child("secretRef"), "name", ref.Name)
}

func hostPath(at *field.Path, v *corev1.HostPathVolumeSource) field.ErrorList {
	if v.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	errs := check.NoBacksteps(at, "path", v.Path)
	return append(errs, check.KnownIfSet(at, "type", v.Type,
		corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
		corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)...)
}

func nfs(at *field.Path, v *corev1.NFSVolumeSource) field.ErrorList {
	errs := needs(at, "server", v.Server, "path", v.Path)
	if !path.IsAbs(v.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), v.Path, "must be an absolute path"))
	}
	return errs
}

func ceph(at *field.Path, monitors []string, image *string) field.ErrorList {
	var errs field.ErrorList
	if len(monitors) == 0 {
		errs = append(errs, field.Required(at.Child("monitors"), ""))
	}
	if image != nil {
		errs = append(errs, needs(at, "image", *image)...)
	}
	return errs
}

// flex checks a volume of an own driver, whose options are not those of Kubernetes.
func flex(at *field.Path, driver string, options map[string]string) field.ErrorList {
	errs := needs(at, "driver", driver)
	for key := range options {
		domain, _, _ := strings.Cut(strings.ToLower(key), "/")
		if strings.HasSuffix("."+domain, ".kubernetes.io") || strings.HasSuffix("."+domain, ".k8s.io") {
			errs = append(errs,
				field.Invalid(at.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

func storageOS(at *field.Path, name, namespace string) field.ErrorList {
	errs := check.Required(at, "volumeName", name, validation.IsDNS1123Label)
	if namespace != "" {
		errs = append(errs, check.Invalid(at.Child("volumeNamespace"), namespace, validation.IsDNS1123Label(namespace))...)
	}
	return errs
}

func fibre(at *field.Path, v *corev1.FCVolumeSource) field.ErrorList {
	var errs field.ErrorList
	switch names := len(v.TargetWWNs) > 0; {
	case !names && len(v.WWIDs) == 0:
		errs = append(errs, field.Required(at.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both"))
	case names && len(v.WWIDs) > 0:
		errs = append(errs,
			field.Invalid(at.Child("targetWWNs"), v.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously"))
	}
	switch {
	case len(v.TargetWWNs) == 0:
	case v.Lun == nil:
		errs = append(errs, field.Required(at.Child("lun"), "lun is required if targetWWNs is specified"))
	default:
		errs = append(errs, unit(at, *v.Lun)...)
	}
	return errs
}

// unit checks the number of a logical unit.
func unit(at *field.Path, n int32) field.ErrorList {
	if n >= 0 && n <= 255 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("lun"), n, validation.InclusiveRangeError(0, 255))}
}

// disk checks a disk of a cloud.
func disk(at *field.Path, v *corev1.PersistentVolumeSource) field.ErrorList {
	switch {
	case v.GCEPersistentDisk != nil:
		p := at.Child("persistentDisk") // upstream's name of it
		return append(needs(p, "pdName", v.GCEPersistentDisk.PDName), partition(p, v.GCEPersistentDisk.Partition)...)
	case v.AWSElasticBlockStore != nil:
		p := at.Child("awsElasticBlockStore")
		return append(needs(p, "volumeID", v.AWSElasticBlockStore.VolumeID), partition(p, v.AWSElasticBlockStore.Partition)...)
	case v.AzureDisk != nil:
		return azureDisk(at.Child("azureDisk"), v.AzureDisk)
	case v.VsphereVolume != nil:
		return needs(at.Child("vsphereVolume"), "volumePath", v.VsphereVolume.VolumePath)
	case v.PhotonPersistentDisk != nil:
		return needs(at.Child("photonPersistentDisk"), "pdID", v.PhotonPersistentDisk.PdID)
	case v.PortworxVolume != nil:
		return needs(at.Child("portworxVolume"), "volumeID", v.PortworxVolume.VolumeID)
	case v.Quobyte != nil:
		return quobyte(at.Child("quobyte"), v.Quobyte)
	case v.Flocker != nil:
		return flocker(at.Child("flocker"), v.Flocker)
	}
	return nil
}

func partition(at *field.Path, n int32) field.ErrorList {
	if n >= 0 && n <= 255 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("partition"), n, validation.InclusiveRangeError(1, 255))}
}

func azureDisk(at *field.Path, v *corev1.AzureDiskVolumeSource) field.ErrorList {
	errs := needs(at, "diskName", v.DiskName, "diskURI", v.DataDiskURI)
	errs = append(errs, check.KnownIfSet(at, "cachingMode", v.CachingMode,
		corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	errs = append(errs,
		check.KnownIfSet(at, "kind", v.Kind, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk,
			corev1.AzureSharedBlobDisk)...)
	if v.Kind == nil {
		return errs
	}
	begins, like := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *v.Kind == corev1.AzureManagedDisk {
		begins, like = "/subscriptions/",
			"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(v.DataDiskURI, begins) {
		errs = append(errs, field.NotSupported(at.Child("diskURI"), v.DataDiskURI, []string{like}))
	}
	return errs
}

func quobyte(at *field.Path, v *corev1.QuobyteVolumeSource) field.ErrorList {
	const hosts, longest = "must be a host:port pair or multiple pairs separated by commas", 64
	errs := needs(at, "volume", v.Volume)
	switch {
	case v.Registry == "":
		return append(errs, field.Required(at.Child("registry"), hosts))
	case len(v.Tenant) > longest:
		return append(errs, field.Required(at.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
	}
	for host := range strings.SplitSeq(v.Registry, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			errs = append(errs, field.Invalid(at.Child("registry"), v.Registry, hosts))
		}
	}
	return errs
}

func flocker(at *field.Path, v *corev1.FlockerVolumeSource) field.ErrorList {
	var errs field.ErrorList
	switch {
	case v.DatasetName == "" && v.DatasetUUID == "":
		errs = append(errs, field.Required(at, "one of datasetName and datasetUUID is required"))
	case v.DatasetName != "" && v.DatasetUUID != "":
		errs = append(errs, field.Invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(v.DatasetName, "/") {
		errs = append(errs, field.Invalid(at.Child("datasetName"), v.DatasetName, "must not contain '/'"))
	}
	return errs
}
