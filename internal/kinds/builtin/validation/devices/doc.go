// Package devices has the rules for the kinds of resource.k8s.io: claims of devices, the
// classes and slices that they are allocated from, and taints.
//
// A request is one item of a claim: it asks for devices of a class. A result is a device that
// is allocated for a request. A slice lists devices of a driver, with their attributes and
// capacities. The texts are upstream's (pkg/apis/resource/validation of Kubernetes 1.37). CEL
// expressions are bounded in length, and parsed; types and cost are not checked. The label
// that a namespace needs for requests with adminAccess is not looked at.
package devices
