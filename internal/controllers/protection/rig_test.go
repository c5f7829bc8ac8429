package protection_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/controllers/protection"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

const (
	claimFinalizer  = "kubernetes.io/pvc-protection"
	volumeFinalizer = "kubernetes.io/pv-protection"
	classFinalizer  = "kubernetes.io/vac-protection"
)

// rig is a registry without admission plugins, and the controllers.
type rig struct {
	*registry.Registry

	t    *testing.T
	live *kinds.Live
	of   *protection.Protection
	stop func() // ends the controllers; nil while they do not run

	deaf atomic.Pointer[error] // what those get that ask the store
}

// Latest implements protection.Verbs.
func (r *rig) Latest(ctx context.Context, gr kinds.GroupResource, namespace string) error {
	if err := r.deaf.Load(); err != nil {
		return *err
	}
	return r.Registry.Latest(ctx, gr, namespace)
}

// in runs a test in a bubble, where time passes when all wait.
func in(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
		if err != nil {
			t.Fatalf("open the log: %v", err)
		}
		r := &rig{t: t, live: kinds.NewLive(builtin.Catalog())}
		r.of = protection.New(protection.Config{Live: r.live, Logger: slog.New(slog.DiscardHandler)})
		r.Registry = registry.New(registry.Config{Store: log, Live: r.live, Collectors: []registry.Collector{r.of}})
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error, 2)
		go func() { ended <- log.Run(context.WithoutCancel(ctx)) }() // ends with Close
		go func() { ended <- r.Run(ctx) }()                          // ends with ctx
		if err := r.WaitReady(t.Context()); err != nil {
			t.Fatalf("wait until it is ready: %v", err)
		}
		r.start()
		test(r)
		if r.stop != nil {
			r.stop()
		}
		cancel()
		err = <-ended
		if err := errors.Join(err, log.Close(), <-ended); err != nil {
			t.Errorf("close the log and wait for the end: %v", err)
		}
	})
}

// start lets the controllers run.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	var wg sync.WaitGroup
	for _, c := range []*protection.Controller{r.of.Claims, r.of.Volumes, r.of.Classes} {
		wg.Go(func() { // ends with ctx
			if err := c.Run(ctx, r); err != nil {
				r.t.Errorf("run a controller: %v", err)
			}
		})
	}
	r.stop = func() { cancel(); wg.Wait(); r.stop = nil }
}

// settle waits until the controllers have done everything, and what failed was tried again.
func (r *rig) settle() {
	<-time.After(10 * time.Second)
	synctest.Wait()
}

func (r *rig) at(resource, name string) kinds.Target {
	gr := kinds.GroupResource{Resource: resource}
	if resource == "volumeattributesclasses" {
		gr.Group = "storage.k8s.io"
	}
	of, _ := r.live.Load().Storage(gr)
	t := kinds.Target{Resource: of, Name: name}
	if of.Namespaced {
		t.Namespace = "default"
	}
	return t
}

func (r *rig) create(resource, body string) {
	r.t.Helper()
	if _, err := r.Create(r.t.Context(), r.at(resource, ""), []byte(body), metav1.CreateOptions{}); err != nil {
		r.t.Fatalf("create %s: %v", body, err)
	}
}

// patch patches an object, or its status.
func (r *rig) patch(resource, name, subresource, body string) {
	r.t.Helper()
	t := r.at(resource, name)
	t.Subresource = subresource
	if _, err := r.Patch(r.t.Context(), t, wire.Patch{Type: types.MergePatchType, Body: []byte(body)},
		metav1.PatchOptions{}); err != nil {
		r.t.Fatalf("patch %s %s by %s: %v", resource, name, body, err)
	}
}

func (r *rig) bind(pod string) {
	r.t.Helper()
	t := r.at("pods", pod)
	t.Subresource = "binding"
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":%q},"target":{"kind":"Node","name":"n"}}`, pod)
	if _, err := r.Create(r.t.Context(), t, []byte(body), metav1.CreateOptions{}); err != nil {
		r.t.Fatalf("bind %s: %v", pod, err)
	}
}

// remove deletes an object; a pod in its time, or (now) at once.
func (r *rig) remove(resource, name string, grace *int64) {
	r.t.Helper()
	if _, err := r.Delete(r.t.Context(), r.at(resource, name), metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		r.t.Fatalf("delete %s %s: %v", resource, name, err)
	}
}

func now() *int64 { return new(int64(0)) }

// has checks whether an object is there, and which finalizers it has then.
func (r *rig) has(resource, name string, finalizers ...string) {
	r.t.Helper()
	r.settle()
	t := r.at(resource, name)
	o := r.Find(t.Resource.GR(), t.Key())
	if o == nil || !slices.Equal(o.Finalizers(), finalizers) {
		r.t.Errorf("%s %s is %v, want one with the finalizers %v", resource, name, text(o), finalizers)
	}
}

func (r *rig) gone(resource, name string) {
	r.t.Helper()
	r.settle()
	t := r.at(resource, name)
	if o := r.Find(t.Resource.GR(), t.Key()); o != nil {
		r.t.Errorf("%s %s is %s, want that it is gone", resource, name, text(o))
	}
}

func text(o *wire.Object) string {
	if o == nil {
		return "gone"
	}
	return string(o.JSON())
}

// claim creates a claim with more members of its metadata and spec.
func (r *rig) claim(name, metadata, spec string) {
	r.t.Helper()
	r.create("persistentvolumeclaims", `{"metadata":{"name":"`+name+`"`+metadata+`},"spec":{"accessModes":["ReadWriteOnce"],`+
		`"resources":{"requests":{"storage":"1Gi"}}`+spec+`}}`)
}

// pod creates a pod with volumes of some claims; "~v" is an ephemeral volume v.
func (r *rig) pod(name, metadata string, claims ...string) types.UID {
	r.t.Helper()
	volumes := []corev1.Volume{}
	for n, claim := range claims {
		v := corev1.Volume{Name: fmt.Sprintf("v%d", n)}
		if claim[0] == '~' {
			v.Name = claim[1:]
			v.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: *gibibyte()},
					},
				},
			}}
		} else {
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
		}
		volumes = append(volumes, v)
	}
	body, err := json.Marshal(volumes)
	if err != nil {
		r.t.Fatalf("encode volumes: %v", err)
	}
	r.create("pods", `{"metadata":{"name":"`+name+`"`+metadata+`},"spec":{"containers":[{"name":"c","image":"i"}],"volumes":`+
		string(body)+`}}`)
	t := r.at("pods", name)
	return r.Find(t.Resource.GR(), t.Key()).UID()
}

// volume creates a PersistentVolume with more members of its spec.
func (r *rig) volume(name, spec string) {
	r.t.Helper()
	r.create("persistentvolumes", `{"metadata":{"name":"`+name+`"},"spec":{"capacity":{"storage":"1Gi"},`+
		`"accessModes":["ReadWriteOnce"],"csi":{"driver":"d.example.org","volumeHandle":"`+name+`"}`+spec+`}}`)
}

func (r *rig) class(name string) {
	r.t.Helper()
	r.create("volumeattributesclasses", `{"metadata":{"name":"`+name+`"},"driverName":"d.example.org","parameters":{"a":"b"}}`)
}
