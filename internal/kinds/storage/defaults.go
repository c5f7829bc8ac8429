package storage

import (
	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// Defaults as of pkg/apis/storage/v1/defaults.go of Kubernetes 1.37.

// defaultStorageClass fills in the defaults of a storage class.
func defaultStorageClass(o tree.Object) {
	tree.SetPointer(o, "reclaimPolicy", "Delete")
	tree.SetPointer(o, "volumeBindingMode", "Immediate")
}

// defaultDriver fills in the defaults of a CSI driver.
func defaultDriver(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.Set(spec, "attachRequired", true)
	for _, name := range []string{
		"podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount", "preventPodSchedulingIfMissing",
	} {
		tree.Set(spec, name, false)
	}
	tree.SetPointer(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType")
	if list, _ := spec["volumeLifecycleModes"].([]any); len(list) == 0 {
		spec["volumeLifecycleModes"] = []any{"Persistent"}
	}
}

// defaultAttachment fills in the defaults of a volume that is attached without an object of its
// own.
func defaultAttachment(o tree.Object) {
	podspec.DefaultStorageSource(tree.Child(o, "spec", "source", "inlineVolumeSpec"))
}

// completeCSINode drops the gated status of the drivers of a node.
func completeCSINode(u, _ tree.Object) error {
	delete(tree.Child(u, "status"), "storageHealth")
	return nil
}
