package wire

import (
	"bytes"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube/scan"
)

// Owned says that the object has metadata.ownerReferences. It costs nothing, unlike
// OwnerReferences.
func (o *Object) Owned() bool { return o.owned }

// OwnerReferences decodes metadata.ownerReferences at each call; nil if there are none, or
// if they have another form than the API's.
func (o *Object) OwnerReferences() []metav1.OwnerReference {
	if !o.owned {
		return nil
	}
	var refs []metav1.OwnerReference
	if json.Unmarshal(o.metadataMember("ownerReferences"), &refs) != nil {
		return nil
	}
	return refs
}

// SameOwnerReferences compares the bytes of metadata.ownerReferences of two objects. It
// does not decode them: references that are written in another way are not the same.
func SameOwnerReferences(a, b *Object) bool {
	if !a.owned || !b.owned {
		return a.owned == b.owned
	}
	return bytes.Equal(a.metadataMember("ownerReferences"), b.metadataMember("ownerReferences"))
}

// Finalizers decodes metadata.finalizers at each call; nil if there are none, or if they
// have another form than the API's.
func (o *Object) Finalizers() []string {
	var finalizers []string
	text := o.metadataMember("finalizers")
	if text == nil || json.Unmarshal(text, &finalizers) != nil {
		return nil
	}
	return finalizers
}

// metadataMember returns the text of a member of metadata, the last one of the name; nil
// if there is none.
func (o *Object) metadataMember(name string) (text []byte) {
	if o.at.metadata == 0 {
		return nil
	}
	s := scan.Scanner{Data: o.JSON(), Pos: o.at.metadata - 1, MaxDepth: maxDepth}
	more, err := s.Enter('}')
	for more && err == nil {
		var key, value scan.Token
		if key, err = s.Key(); err != nil {
			break
		}
		s.Peek()
		start := s.Pos
		if value, err = s.Skip(); err != nil {
			break
		}
		if string(s.Data[key.Start:key.End]) == name && value.Kind == scan.KindArray {
			text = s.Data[start:s.Pos]
		}
		more, err = s.Next('}')
	}
	return text
}
