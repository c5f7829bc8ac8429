package printers

import "k8s.io/apimachinery/pkg/runtime/schema"

// The minor versions of Kubernetes 1 whose printers were compared: those of 1.33.0, 1.34.0, 1.35.0 and
// 1.36.0 with 1.37.2 (pkg/printers/internalversion/printers.go and what it calls).
const (
	oldestCompared = 33
	// Newest is the minor version whose cells these are.
	Newest = 37
)

// Since returns the first minor version of kube-apiserver 1 whose cells of a built-in resource are those of
// its [Printer], as they are up to Newest. Columns can be the same although cells are not: from 1.35 on
// a pod whose container failed is Error and not Completed.
func Since(gr schema.GroupResource) int {
	switch gr.String() {
	case "jobs.batch", "volumeattributesclasses.storage.k8s.io":
		return 34
	case "pods", "serviceaccounts", "podcertificaterequests.certificates.k8s.io", "storageversionmigrations.storagemigration.k8s.io":
		return 35
	case "nodes", "ingressclasses.networking.k8s.io":
		return 36
	case "storageclasses.storage.k8s.io":
		return 37
	}
	return oldestCompared
}
