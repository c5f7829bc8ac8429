// Package storage reads what the program has stored, with the declarations of upstream's
// package of this name, which reads from etcd.
//
// A reader finds the last record of an object in the program's log.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/gapless-io/gapless/internal/store/revlog/format"
	"github.com/gapless-io/gapless/internal/wire"
)

// EtcdObjectReader reads the log of the program.
type EtcdObjectReader struct {
	dir string // of the log
	crd *apiextensionsv1.CustomResourceDefinition
}

// NewEtcdObjectReader returns a reader of the objects of a definition, for the options of
// fixtures.StartDefaultServer.
func NewEtcdObjectReader(_ *clientv3.Client, restOptions *generic.RESTOptions,
	crd *apiextensionsv1.CustomResourceDefinition,
) *EtcdObjectReader {
	return &EtcdObjectReader{dir: filepath.Join(restOptions.StorageConfig.Prefix, "log"), crd: crd}
}

// GetEtcdClients returns a client that is connected to nothing, which the tests close.
func GetEtcdClients(storagebackend.TransportConfig) (*clientv3.Client, clientv3.KV, error) {
	return clientv3.NewCtxClient(context.Background()), nil, nil
}

// WaitForStorageVersion updates an object until it is stored in a version.
func (s *EtcdObjectReader) WaitForStorageVersion(version, ns, name string, timeout time.Duration, update func()) error {
	end := time.After(timeout)
	for {
		stored, err := s.GetStoredCustomResource(ns, name)
		if err != nil {
			return err
		}
		if stored.GroupVersionKind().Version == version {
			return nil
		}
		select {
		case <-end:
			return fmt.Errorf("%s/%s is stored in %s after %v, not in %s", ns, name, stored.GetAPIVersion(), timeout, version)
		case <-time.After(10 * time.Millisecond):
			update()
		}
	}
}

// GetStoredCustomResource returns an object as it is stored.
func (s *EtcdObjectReader) GetStoredCustomResource(ns, name string) (*unstructured.Unstructured, error) {
	object := wire.Key{Namespace: ns, Name: name}
	value, err := s.last(s.crd.Spec.Names.Plural + "." + s.crd.Spec.Group + "/" + object.String())
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(value); err != nil {
		return nil, fmt.Errorf("decode %s: %w", value, err)
	}
	return u, nil
}

// errReadOnly is the error of writes: nothing but the program may write its log.
var errReadOnly = errors.New("the test writes to etcd")

// SetStoredCustomResource returns an error.
func (s *EtcdObjectReader) SetStoredCustomResource(string, string, *unstructured.Unstructured) error {
	return errReadOnly
}

// SetStoredCustomResourceDefinition returns an error.
func (s *EtcdObjectReader) SetStoredCustomResourceDefinition(string, *apiextensionsv1.CustomResourceDefinition) error {
	return errReadOnly
}

// last returns the value of the last record of a key. It reads the whole log, which is short.
func (s *EtcdObjectReader) last(key string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, format.ManifestName))
	if err != nil {
		return nil, err
	}
	manifest, err := format.DecodeManifest(text)
	if err != nil {
		return nil, err
	}
	var value []byte
	for _, segment := range manifest.Segments {
		if value, err = s.lastIn(segment, manifest.ID(), key, value); err != nil {
			return nil, err
		}
	}
	if value == nil {
		return nil, fmt.Errorf("nothing is stored under %s", key)
	}
	return value, nil
}

// lastIn returns the value of the last record of a key in a segment, or else the value before.
func (s *EtcdObjectReader) lastIn(segment format.SegmentEntry, id format.StoreID, key string,
	before []byte,
) (value []byte, err error) {
	file, err := os.Open(filepath.Join(s.dir, segment.Name()))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	head := make([]byte, format.SegmentHeaderBytes)
	if _, err := file.ReadAt(head, 0); err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	frames := format.NewScanner(format.SegmentReader{
		File: file, Name: segment.Name(), Kind: segment.Kind, First: segment.First, Seed: format.SegmentSeed(head),
		End: info.Size(),
	})
	if frames.Chain, err = format.CheckSegmentHeader(head, segment, id); err != nil {
		return nil, err
	}
	for {
		records, err := frames.Next()
		if errors.Is(err, io.EOF) || format.IsDamage(err) { // the program is writing behind it
			return before, nil
		}
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if r.Key == key {
				before = append([]byte(nil), r.Value...)
			}
		}
	}
}
