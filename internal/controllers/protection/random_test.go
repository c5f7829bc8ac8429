package protection_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/wire"
)

var seed = flag.Uint64("seed", rand.Uint64(), "of random tests")

// TestRandomUsesKeepWhatUpstreamKeeps does random things to pods, claims, volumes and classes, and checks after each that
// what is under deletion is there if, and only if, upstream's rules say that it is used: they are applied to what is
// stored, with Go's types.
func TestRandomUsesKeepWhatUpstreamKeeps(t *testing.T) {
	t.Logf("-seed=%d", *seed)
	for round := range uint64(20) {
		in(t, func(r *rig) {
			random := rand.New(rand.NewPCG(*seed, round)) //nolint:gosec // reproducible from the seed
			before := r.stored()
			for range 60 {
				did := r.something(random)
				r.settle()
				after := r.stored()
				r.check(did, before, after)
				before = after
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
}

// something does one random thing, if it can be done, and says what.
func (r *rig) something(random *rand.Rand) string {
	pod, claim := fmt.Sprintf("p%d", random.IntN(4)), []string{"a", "b", "p0-e", "p1-e"}[random.IntN(4)]
	volume, class := fmt.Sprintf("v%d", random.IntN(2)), fmt.Sprintf("k%d", random.IntN(2))
	p, c := r.found("pods", pod), r.found("persistentvolumeclaims", claim)
	v, k := r.found("persistentvolumes", volume), r.found("volumeattributesclasses", class)
	act := func(can bool, what string, do func()) string {
		if can {
			do()
			return what
		}
		return "nothing"
	}
	live := p != nil && !p.Deleting()
	switch random.IntN(16) {
	case 0, 1:
		return act(p == nil, "create "+pod, func() {
			metadata := ""
			if random.IntN(3) == 0 {
				metadata = `,"finalizers":["example.org/hold"]`
			}
			uses := [][]string{{"a"}, {"b", "a"}, {"~e"}, {"~e", "a", "a"}, {}}
			r.pod(pod, metadata, uses[random.IntN(len(uses))]...)
		})
	case 2, 3:
		return act(live && p.Fields().Get("spec.nodeName") == "", "bind "+pod, func() { r.bind(pod) })
	case 4:
		phase := []string{"Running", "Succeeded", "Failed"}[random.IntN(3)]
		return act(p != nil, phase+" "+pod, func() { r.patch("pods", pod, "status", `{"status":{"phase":"`+phase+`"}}`) })
	case 5:
		return act(p != nil, "delete "+pod, func() { r.remove("pods", pod, nil) })
	case 6:
		return act(p != nil, "kill "+pod, func() { r.remove("pods", pod, now()) })
	case 7:
		return act(p != nil, "release "+pod, func() { r.patch("pods", pod, "", `{"metadata":{"finalizers":null}}`) })
	case 8, 9:
		return act(c == nil, "create "+claim, func() {
			metadata, spec := "", ""
			if owner := r.found("pods", claim[:min(2, len(claim))]); owner != nil && random.IntN(4) > 0 {
				metadata = fmt.Sprintf(
					`,"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":%q,"uid":%q,"controller":true}]`,
					owner.Key().Name, owner.UID())
			}
			if random.IntN(2) == 0 {
				spec = `,"volumeAttributesClassName":"` + class + `"`
			}
			r.claim(claim, metadata, spec)
		})
	case 10:
		return act(c != nil, "bind "+claim, func() {
			r.patch("persistentvolumeclaims", claim, "status", `{"status":{"phase":"Bound"}}`)
		})
	case 11:
		return act(c != nil, "delete "+claim, func() { r.remove("persistentvolumeclaims", claim, nil) })
	case 12:
		return act(v == nil, "create "+volume, func() { r.volume(volume, `,"volumeAttributesClassName":"`+class+`"`) })
	case 13:
		phase := []string{"Bound", "Released"}[random.IntN(2)]
		return act(v != nil, phase+" "+volume, func() {
			r.patch("persistentvolumes", volume, "status", `{"status":{"phase":"`+phase+`"}}`)
			if random.IntN(2) == 0 && !v.Deleting() { // otherwise it may be gone by now
				r.remove("persistentvolumes", volume, nil)
			}
		})
	case 14:
		if k == nil {
			r.class(class)
			return "create " + class
		}
		r.remove("volumeattributesclasses", class, nil)
		return "delete " + class
	}
	if r.stop == nil {
		return "nothing"
	}
	r.stop()
	defer r.start()
	return "restart, after " + r.something(random)
}

func (r *rig) found(resource, name string) *wire.Object {
	t := r.at(resource, name)
	return r.Find(t.Resource.GR(), t.Key())
}

// all returns the objects of a resource.
func all[T any](r *rig, resource string) (all []T) {
	r.t.Helper()
	for o := range r.Objects(r.at(resource, "").Resource.GR(), "") {
		var one T
		if err := json.Unmarshal(o.JSON(), &one); err != nil {
			r.t.Fatalf("decode: %v", err)
		}
		all = append(all, one)
	}
	return all
}

// stored is everything at one moment.
type stored struct {
	pods    []corev1.Pod
	claims  []corev1.PersistentVolumeClaim
	volumes []corev1.PersistentVolume
	classes []storagev1.VolumeAttributesClass
}

func (r *rig) stored() stored {
	return stored{
		all[corev1.Pod](r, "pods"), all[corev1.PersistentVolumeClaim](r, "persistentvolumeclaims"),
		all[corev1.PersistentVolume](r, "persistentvolumes"), all[storagev1.VolumeAttributesClass](r, "volumeattributesclasses"),
	}
}

// used reports whether an object is used by what is stored.
func (s stored) used(o metav1.Object) bool {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		return slices.ContainsFunc(s.pods, func(p corev1.Pod) bool { return keeps(&p, o) })
	case *corev1.PersistentVolume:
		return o.Status.Phase == corev1.VolumeBound
	}
	is := func(class *string) bool { return class != nil && *class == o.GetName() }
	return slices.ContainsFunc(s.volumes, func(v corev1.PersistentVolume) bool { return is(v.Spec.VolumeAttributesClassName) }) ||
		slices.ContainsFunc(s.claims, func(c corev1.PersistentVolumeClaim) bool { return is(c.Spec.VolumeAttributesClassName) })
}

// objects returns all that is protected, with its finalizer.
func (s stored) objects() map[metav1.Object]string {
	all := map[metav1.Object]string{}
	for n := range s.claims {
		all[&s.claims[n]] = claimFinalizer
	}
	for n := range s.volumes {
		all[&s.volumes[n]] = volumeFinalizer
	}
	for n := range s.classes {
		all[&s.classes[n]] = classFinalizer
	}
	return all
}

// check compares what is stored before something was done and after with upstream's rules.
func (r *rig) check(did string, before, after stored) {
	r.t.Helper()
	there := map[types.UID]bool{}
	for o, finalizer := range after.objects() {
		there[o.GetUID()] = true
		used := after.used(o)
		if o.GetDeletionTimestamp() != nil && !used || !slices.Contains(o.GetFinalizers(), finalizer) {
			r.t.Errorf("after %q %T %s is there, used: %v, with the finalizers %q", did, o, o.GetName(), used, o.GetFinalizers())
		}
	}
	for o := range before.objects() {
		_, isVolume := o.(*corev1.PersistentVolume) // which gets its phase, and deleted, in one
		if !there[o.GetUID()] && !isVolume && after.used(o) {
			r.t.Errorf("after %q %T %s is gone, but used", did, o, o.GetName())
		}
	}
	for n := range after.claims {
		c := &after.claims[n]
		if c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil {
			continue
		}
		want := "True NoPodsUsingPVC"
		if slices.ContainsFunc(after.pods, func(p corev1.Pod) bool { return refers(&p, c) }) {
			want = "False PodUsingPVC"
		}
		if got := unusedOf(c); got != want {
			r.t.Errorf("after %q the claim %s has the condition %q, want %q", did, c.Name, got, want)
		}
	}
}

// keeps is pvcprotection's podUsesPVCForDeletion.
func keeps(p *corev1.Pod, c *corev1.PersistentVolumeClaim) bool {
	shutDown := p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
	return p.Spec.NodeName != "" && names(p, c, shutDown)
}

// refers is pvcprotection's podUsesPVCForUnusedSince; the containers of the pods here have no status.
func refers(p *corev1.Pod, c *corev1.PersistentVolumeClaim) bool {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil
	return !ended && names(p, c, false)
}

// names reports whether a pod has a volume of a claim, or (unless it does not count) one for which it was made.
func names(p *corev1.Pod, c *corev1.PersistentVolumeClaim, notEphemeral bool) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName == c.Name
		}
		return v.Ephemeral != nil && !notEphemeral && p.Name+"-"+v.Name == c.Name && metav1.IsControlledBy(c, p)
	})
}
