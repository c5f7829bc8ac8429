package protection_test

import (
	"encoding/json"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func gibibyte() *resource.Quantity { return resource.NewQuantity(1<<30, resource.BinarySI) }

func TestWhatIsStoredWithoutAFinalizerGetsIt(t *testing.T) {
	in(t, func(r *rig) {
		r.stop()
		r.claim("a", "", "")
		r.claim("other", `,"finalizers":["example.org/hold"]`, "")
		r.volume("a", "")
		r.class("a")
		r.start()
		r.has("persistentvolumeclaims", "a", claimFinalizer)
		r.has("persistentvolumeclaims", "other", "example.org/hold", claimFinalizer)
		r.has("persistentvolumes", "a", volumeFinalizer)
		r.has("volumeattributesclasses", "a", classFinalizer)
		r.remove("persistentvolumeclaims", "other", nil)
		r.has("persistentvolumeclaims", "other", "example.org/hold")
	})
}

func TestAClaimStaysWhileAScheduledPodNamesIt(t *testing.T) {
	in(t, func(r *rig) {
		r.claim("c", "", "")
		r.pod("p", "", "c")
		r.pod("twice", "", "c", "c")
		r.bind("p")
		r.bind("twice")
		r.has("persistentvolumeclaims", "c", claimFinalizer)
		r.remove("persistentvolumeclaims", "c", nil)
		r.has("persistentvolumeclaims", "c", claimFinalizer)
		r.remove("pods", "twice", now())
		r.patch("pods", "p", "status", `{"status":{"phase":"Succeeded"}}`)
		r.has("persistentvolumeclaims", "c", claimFinalizer) // the kubelet may not have unmounted it
		r.remove("pods", "p", now())
		r.gone("persistentvolumeclaims", "c")
	})
}

func TestPodsWithoutANodeKeepNoClaim(t *testing.T) {
	in(t, func(r *rig) {
		r.claim("c", "", "")
		r.pod("p", "", "c")
		r.has("persistentvolumeclaims", "c", claimFinalizer)
		r.remove("persistentvolumeclaims", "c", nil)
		r.gone("persistentvolumeclaims", "c")
		r.claim("c", "", "") // the same name
		r.bind("p")
		r.has("persistentvolumeclaims", "c", claimFinalizer)
		r.remove("persistentvolumeclaims", "c", nil)
		r.has("persistentvolumeclaims", "c", claimFinalizer)
		r.remove("pods", "p", now())
		r.gone("persistentvolumeclaims", "c")
	})
}

func TestAClaimOfAnEphemeralVolumeStaysForItsPodOnly(t *testing.T) {
	in(t, func(r *rig) {
		owner := r.pod("p", `,"finalizers":["example.org/hold"]`, "~v")
		r.bind("p")
		r.claim("p-v", `,"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"`+string(owner)+
			`","controller":true}]`, "")
		r.has("persistentvolumeclaims", "p-v", claimFinalizer)
		r.remove("persistentvolumeclaims", "p-v", nil)
		r.has("persistentvolumeclaims", "p-v", claimFinalizer)
		r.remove("pods", "p", now()) // it waits for its finalizer
		r.gone("persistentvolumeclaims", "p-v")
		r.patch("pods", "p", "", `{"metadata":{"finalizers":null}}`)

		r.pod("p", "", "~v")
		r.bind("p")
		r.claim("p-v", "", "") // of nobody
		r.has("persistentvolumeclaims", "p-v", claimFinalizer)
		r.remove("persistentvolumeclaims", "p-v", nil)
		r.gone("persistentvolumeclaims", "p-v")
	})
}

func TestAVolumeStaysWhileItIsBound(t *testing.T) {
	in(t, func(r *rig) {
		r.volume("v", "")
		r.patch("persistentvolumes", "v", "status", `{"status":{"phase":"Bound"}}`)
		r.has("persistentvolumes", "v", volumeFinalizer)
		r.remove("persistentvolumes", "v", nil)
		r.has("persistentvolumes", "v", volumeFinalizer)
		r.patch("persistentvolumes", "v", "status", `{"status":{"phase":"Released"}}`)
		r.gone("persistentvolumes", "v")
	})
}

func TestAClassStaysWhileClaimsAndVolumesNameIt(t *testing.T) {
	in(t, func(r *rig) {
		r.class("of-claims")
		r.class("of-volumes")
		r.class("unused")
		r.claim("spec", "", `,"volumeAttributesClassName":"of-claims"`)
		r.claim("status", "", "")
		r.patch("persistentvolumeclaims", "status", "status",
			`{"status":{"modifyVolumeStatus":{"targetVolumeAttributesClassName":"of-claims","status":"Pending"}}}`)
		r.volume("v", `,"volumeAttributesClassName":"of-volumes"`)
		r.settle()
		for _, class := range []string{"of-claims", "of-volumes", "unused"} {
			r.remove("volumeattributesclasses", class, nil)
		}
		r.gone("volumeattributesclasses", "unused")
		r.has("volumeattributesclasses", "of-volumes", classFinalizer)
		r.remove("persistentvolumes", "v", nil)
		r.gone("volumeattributesclasses", "of-volumes")
		r.remove("persistentvolumeclaims", "spec", nil)
		r.has("volumeattributesclasses", "of-claims", classFinalizer)
		r.patch("persistentvolumeclaims", "status", "status", `{"status":{"modifyVolumeStatus":null}}`)
		r.gone("volumeattributesclasses", "of-claims")
	})
}

// unused returns the condition Unused of a claim, "" if it has none.
func (r *rig) unused(claim string) string {
	r.t.Helper()
	r.settle()
	t := r.at("persistentvolumeclaims", claim)
	var is corev1.PersistentVolumeClaim
	if err := json.Unmarshal(r.Find(t.Resource.GR(), t.Key()).JSON(), &is); err != nil {
		r.t.Fatalf("decode the claim: %v", err)
	}
	return unusedOf(&is)
}

func unusedOf(claim *corev1.PersistentVolumeClaim) string {
	for _, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimUnused {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

func TestBoundClaimsSayWhetherTheyAreUsed(t *testing.T) {
	in(t, func(r *rig) {
		const used, unused = "False PodUsingPVC", "True NoPodsUsingPVC"
		want := func(want string) {
			r.t.Helper()
			if got := r.unused("c"); got != want {
				r.t.Errorf("the claim has the condition %q, want %q", got, want)
			}
		}
		r.claim("c", "", "")
		want("")
		r.patch("persistentvolumeclaims", "c", "status",
			`{"status":{"phase":"Bound","conditions":[{"type":"Resizing","status":"True"}]}}`)
		want(unused)
		r.pod("p", "", "c") // it has no node
		want(used)
		r.bind("p")
		r.patch("pods", "p", "status", `{"status":{"phase":"Succeeded"}}`)
		want(unused)
		r.pod("q", "", "c")
		want(used)
		r.stop()
		r.remove("pods", "q", now()) // while nobody looks
		r.start()
		want(unused)
		r.has("persistentvolumeclaims", "c", claimFinalizer)
	})
}

func TestNothingIsReleasedWhileTheStoreCannotSayWhoUsesIt(t *testing.T) {
	in(t, func(r *rig) {
		r.claim("c", "", "")
		r.class("c")
		r.settle()
		r.deaf.Store(new(errors.New("an object cannot be read")))
		r.remove("persistentvolumeclaims", "c", nil)
		r.remove("volumeattributesclasses", "c", nil)
		r.has("persistentvolumeclaims", "c", claimFinalizer)
		r.has("volumeattributesclasses", "c", classFinalizer)
		if s := r.of.Claims.Stats(); s.Errors == 0 || s.Pending != 1 {
			t.Errorf("the figures are %+v, want a claim that is tried again", s)
		}
		r.deaf.Store(nil)
		r.settle()
		r.settle()
		r.gone("persistentvolumeclaims", "c")
		r.gone("volumeattributesclasses", "c")
	})
}

func TestARunGoesOnWhereTheLastOneEnded(t *testing.T) {
	in(t, func(r *rig) {
		r.claim("c", "", "")
		r.claim("free", "", "")
		r.pod("p", "", "c")
		r.bind("p")
		r.settle()
		r.stop()
		r.remove("persistentvolumeclaims", "c", nil)
		r.remove("persistentvolumeclaims", "free", nil)
		r.has("persistentvolumeclaims", "free", claimFinalizer)
		r.start()
		r.gone("persistentvolumeclaims", "free")
		r.has("persistentvolumeclaims", "c", claimFinalizer)
		r.stop()
		r.remove("pods", "p", now())
		r.has("persistentvolumeclaims", "c", claimFinalizer)
		r.start()
		r.gone("persistentvolumeclaims", "c")
	})
}
