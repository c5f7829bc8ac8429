package wire

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Patch is the body of a PATCH and its content type.
type Patch struct {
	Type types.PatchType
	Body []byte
}

// Written is the outcome of a write.
type Written struct {
	// Object is the object as it is now; nil when Status answers instead.
	Object *Object
	// Status is set for a DELETE that removed the object at once.
	Status *metav1.Status
	// Created says that the object is new (201 instead of 200).
	Created bool
	// Warnings become Warning headers (299). They are there beside an error, too.
	Warnings []string
}
