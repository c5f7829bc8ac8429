package layout

import (
	"errors"
	"fmt"
)

// Why a value in etcd cannot be read. A *ValueError wraps them.
var (
	// ErrEncrypted is returned for a value that kube-apiserver has encrypted.
	ErrEncrypted = errors.New("it is encrypted: start this server with the file that kube-apiserver's " +
		"--encryption-provider-config names")
	// ErrCBOR is returned for a value in CBOR, which kube-apiserver writes behind a feature gate only.
	ErrCBOR = errors.New("it is CBOR, which this server does not read: turn off the feature gate CBORServingAndStorage " +
		"of kube-apiserver, and write the object again")
	// ErrCorrupt is returned for a value in no known encoding.
	ErrCorrupt = errors.New("it is neither protobuf nor JSON: restore the object, or delete the key with etcdctl")
)

// ValueError is a value that cannot be converted. Err says why; it may be one of the errors above, or a
// *VersionError.
type ValueError struct {
	Key string // in the store
	Err error
}

// Error says of which object the value is, and why it cannot be converted.
func (e *ValueError) Error() string { return fmt.Sprintf("the value of %q: %v", e.Key, e.Err) }

// Unwrap returns Err.
func (e *ValueError) Unwrap() error { return e.Err }

// VersionError is an object in a version, or of a kind, that this server cannot convert to the one in which it
// stores the resource.
type VersionError struct {
	APIVersion, Kind string // of the value
	Want             string // the kind of the resource
}

// Error says what was found, and what to do.
func (e *VersionError) Error() string {
	if e.Kind != e.Want {
		return fmt.Sprintf("it is a %s of %q, not a %s: restore the object, or delete the key with etcdctl",
			e.Kind, e.APIVersion, e.Want)
	}
	return fmt.Sprintf("it is a %s of %q, a version that cannot be read any more: write the object again through a "+
		"kube-apiserver that still serves it", e.Kind, e.APIVersion)
}
