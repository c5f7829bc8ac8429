package replicas_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
	oracle "github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/migrate"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

var events = schema.GroupVersionResource{Version: "v1", Resource: "events"}

// moved are objects whose keys, encodings and life cycles differ.
var moved = append(each[:len(each):len(each)], []struct {
	gvr       schema.GroupVersionResource
	namespace string
	text      string
}{
	{configMaps, "default", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"held-NAME",
		"finalizers":["example.org/wait"]}}`},
	{events, "default", `{"apiVersion":"v1","kind":"Event","metadata":{"name":"event-NAME"},
		"involvedObject":{"kind":"Pod","namespace":"default","name":"p"},"reason":"Tested","type":"Normal"}`},
}...)

// etcdAt returns a client of etcd that ends with the test.
func etcdAt(t *testing.T, url string) *clientv3.Client {
	t.Helper()
	return oracle.ClientFor(t, url)
}

// moving are the options of a migration between a directory and an etcd.
func moving(dir, url string) migrate.Options {
	return migrate.Options{
		Dir: dir, Cluster: etcd.Cluster{Servers: []string{url}}, Prefix: gapless.DefaultEtcdPrefix,
		EventTTL: gapless.DefaultEventTTL,
	}
}

// configMapRecord is the record of a ConfigMap as servers write it.
func configMapRecord(i int) store.Record {
	name := fmt.Sprintf("c%05d", i)
	return store.Record{
		Key: "configmaps/default/" + name,
		Value: fmt.Appendf(nil, `{"apiVersion":"v1","data":{"k":"%d"},"kind":"ConfigMap","metadata":{"creationTimestamp":`+
			`"2026-01-01T00:00:00Z","name":"%s","namespace":"default","uid":"00000000-0000-0000-0000-%012d"}}`, i, name, i),
		ModRevision: int64(i + 1), CreateRevision: int64(i + 1), Time: time.Now(),
	}
}

// directoryOf makes the data directory of a server that has given out resourceVersions up to last.
func directoryOf(t *testing.T, last int64, records ...store.Record) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	_, err := backup.Fill(t.Context(), backup.Header{Revision: last - 1, Made: time.Now()},
		func(yield func(store.Record, error) bool) {
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
		}, backup.RestoreOptions{Dir: dir, Bump: 1}, func(disk.FS) error { return nil })
	if err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	return dir
}

func configMapRecords(n int) []store.Record {
	records := make([]store.Record, n)
	for i := range records {
		records[i] = configMapRecord(i)
	}
	return records
}

// contents returns the moved objects as a server shows them, without their resourceVersions.
func contents(t *testing.T, at dynamic.Interface) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, of := range moved {
		name := object(t, strings.ReplaceAll(of.text, "NAME", "moved")).GetName()
		got, err := at.Resource(of.gvr).Namespace(of.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Errorf("read %s %s: %v", of.gvr.Resource, name, err)
			continue
		}
		unstructured.RemoveNestedField(got.Object, "metadata", "resourceVersion")
		all[of.gvr.Resource+" "+name] = got.Object
	}
	return all
}

// isExpired reports whether a watch from a resourceVersion is 410 at a server.
func isExpired(t *testing.T, at dynamic.Interface, resourceVersion string) error {
	t.Helper()
	w, err := at.Resource(configMaps).Namespace("default").Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: resourceVersion,
	})
	if err == nil {
		defer w.Stop()
		select {
		case e := <-w.ResultChan():
			err = apierrors.FromObject(e.Object)
		case <-time.After(5 * time.Second):
			return errors.New("the watch is served")
		}
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		return fmt.Errorf("the watch ends with %w", err)
	}
	return nil
}

// fillDirectory runs a server on a directory, creates the moved objects, and returns what it shows, and its last
// resourceVersion.
func fillDirectory(t *testing.T, dir, encryption string) (shown map[string]any, last string) {
	t.Helper()
	s := start(t, "", dir, func(cfg *gapless.Config) {
		cfg.Etcd, cfg.EncryptionProviderConfig = gapless.Etcd{}, encryption
	})
	at := dynamicOf(t, s.RESTConfig())
	if _, err := at.Resource(definitions).Create(t.Context(), object(t, widgetDefinition), metav1.CreateOptions{}); err != nil {
		t.Fatalf("create a definition: %v", err)
	}
	harness.Eventually(t, "the custom resource is served", func() bool {
		_, err := at.Resource(widgets).Namespace("default").List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	for _, of := range moved {
		u := object(t, strings.ReplaceAll(of.text, "NAME", "moved"))
		made, err := at.Resource(of.gvr).Namespace(of.namespace).Create(t.Context(), u, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("create %s: %v", of.gvr.Resource, err)
		}
		last = made.GetResourceVersion()
		if len(u.GetFinalizers()) > 0 { // it stays, under deletion
			if err := at.Resource(of.gvr).Namespace(of.namespace).Delete(t.Context(), u.GetName(),
				metav1.DeleteOptions{}); err != nil {
				t.Fatalf("delete %s: %v", of.gvr.Resource, err)
			}
		}
	}
	shown = contents(t, at)
	s.stop(t)
	return shown, last
}
