package protection

import (
	"bytes"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// users are the pods that name claims. Those without are not in it. It grows and shrinks with the references of pods to
// claims.
type users struct {
	pods   map[wire.Key]*pod
	claims map[wire.Key]*uses
}

// pod is what a pod says about the claims of its volumes. Volumes of a pod never change.
type pod struct {
	uid       types.UID
	named     []string // claims that it names, each once
	ephemeral []string // claims that are made for it, each once
	state     podState
}

// podState is what decides whether a pod uses its claims.
type podState struct {
	scheduled bool // it has a node
	ended     bool // volumeutil.IsPodTerminated
	shutDown  bool // the kubelet is done with it, or it was deleted by force
}

// uses are the pods that use a claim.
type uses struct {
	scheduled int                // that name it, and have a node
	live      int                // that name it, and have not ended
	owners    map[types.UID]*pod // for which it may be made
}

func newUsers() users { return users{map[wire.Key]*pod{}, map[wire.Key]*uses{}} }

// change notes a change of a pod, and returns the claims of which the use may have changed.
func (u *users) change(before, after *wire.Object) (touched []wire.Key) {
	o := after
	if o == nil {
		o = before
	}
	key := o.Key()
	last := u.pods[key]
	if last != nil && (after == nil || last.uid != after.UID()) {
		u.count(key, last, -1)
		delete(u.pods, key)
		touched, last = last.claims(key), nil
	}
	switch {
	case after == nil:
	case last != nil:
		if state := stateOf(after); state != last.state {
			u.count(key, last, -1)
			last.state = state
			u.count(key, last, 1)
			touched = last.claims(key)
		}
	case before != nil && before.UID() == after.UID(): // it has no claims
	default:
		if p := podOf(after); p != nil {
			u.pods[key] = p
			u.count(key, p, 1)
			touched = append(touched, p.claims(key)...)
		}
	}
	return touched
}

// count adds a pod to the uses of its claims, or (n is -1) takes it from them.
func (u *users) count(key wire.Key, p *pod, n int) {
	for _, name := range p.named {
		of := u.of(wire.Key{Namespace: key.Namespace, Name: name})
		if p.state.scheduled {
			of.scheduled += n
		}
		if !p.state.ended {
			of.live += n
		}
		u.drop(wire.Key{Namespace: key.Namespace, Name: name}, of)
	}
	for _, name := range p.ephemeral {
		of := u.of(wire.Key{Namespace: key.Namespace, Name: name})
		if n > 0 {
			if of.owners == nil {
				of.owners = map[types.UID]*pod{}
			}
			of.owners[p.uid] = p
		} else {
			delete(of.owners, p.uid)
		}
		u.drop(wire.Key{Namespace: key.Namespace, Name: name}, of)
	}
}

func (u *users) of(claim wire.Key) *uses {
	of := u.claims[claim]
	if of == nil {
		of = &uses{}
		u.claims[claim] = of
	}
	return of
}

// drop forgets the uses of a claim if there are none.
func (u *users) drop(claim wire.Key, of *uses) {
	if of.scheduled == 0 && of.live == 0 && len(of.owners) == 0 {
		delete(u.claims, claim)
	}
}

// claims returns the keys of all claims of a pod.
func (p *pod) claims(of wire.Key) (all []wire.Key) {
	for _, names := range [][]string{p.named, p.ephemeral} {
		for _, name := range names {
			all = append(all, wire.Key{Namespace: of.Namespace, Name: name})
		}
	}
	return all
}

// holds reports whether a pod uses a claim in a way that keeps it (podUsesPVCForDeletion). Owner is the controller of the
// claim. Pods without a node do not: the kubelet starts none with a claim under deletion.
func (u *uses) holds(owner types.UID) bool {
	if u == nil {
		return false
	}
	p := u.owners[owner]
	return u.scheduled > 0 || p != nil && p.state.scheduled && !p.state.shutDown
}

// refers reports whether a pod that has not ended refers to a claim (podUsesPVCForUnusedSince).
func (u *uses) refers(owner types.UID) bool {
	if u == nil {
		return false
	}
	p := u.owners[owner]
	return u.live > 0 || p != nil && !p.state.ended
}

// podOf returns what a pod says about claims; nil if it has none.
func podOf(o *wire.Object) *pod {
	text := o.JSON()
	if !bytes.Contains(text, []byte(`"persistentVolumeClaim"`)) && !bytes.Contains(text, []byte(`"ephemeral"`)) {
		return nil
	}
	var is struct {
		Spec struct {
			Volumes []struct {
				Name  string `json:"name"`
				Claim *struct {
					Name string `json:"claimName"`
				} `json:"persistentVolumeClaim"`
				Ephemeral *struct{} `json:"ephemeral"`
			} `json:"volumes"`
		} `json:"spec"`
	}
	_ = json.Unmarshal(text, &is) // what is stored is a pod; of what is none, no kubelet mounts a claim
	p := &pod{uid: o.UID(), state: stateOf(o)}
	for _, v := range is.Spec.Volumes {
		switch {
		case v.Claim != nil:
			p.named = append(p.named, v.Claim.Name)
		case v.Ephemeral != nil:
			p.ephemeral = append(p.ephemeral, o.Key().Name+"-"+v.Name) // ephemeral.VolumeClaimName
		}
	}
	p.named, p.ephemeral = distinct(p.named), distinct(p.ephemeral)
	if len(p.named)+len(p.ephemeral) == 0 {
		return nil
	}
	return p
}

// distinct returns strings without doubles, in a slice of its own size.
func distinct(all []string) []string {
	slices.Sort(all)
	return slices.Clip(slices.Compact(all))
}

// stateOf returns the state of a pod.
func stateOf(o *wire.Object) podState {
	phase := corev1.PodPhase(o.Fields().Get("status.phase"))
	s := podState{
		scheduled: o.Fields().Get("spec.nodeName") != "",
		ended:     phase == corev1.PodFailed || phase == corev1.PodSucceeded,
	}
	if !o.Deleting() {
		return s
	}
	var is struct {
		Metadata struct {
			Grace *int64 `json:"deletionGracePeriodSeconds"`
		} `json:"metadata"`
		Status struct {
			Init       []containerStatus `json:"initContainerStatuses"`
			Containers []containerStatus `json:"containerStatuses"`
			Ephemeral  []containerStatus `json:"ephemeralContainerStatuses"`
		} `json:"status"`
	}
	if err := json.Unmarshal(o.JSON(), &is); err != nil {
		return s // it uses what it may use
	}
	s.shutDown = is.Metadata.Grace != nil && *is.Metadata.Grace == 0
	s.ended = s.ended || !slices.ContainsFunc(slices.Concat(is.Status.Init, is.Status.Containers, is.Status.Ephemeral),
		func(c containerStatus) bool { return c.State.Terminated == nil && c.State.Waiting == nil })
	return s
}

// containerStatus is the part of a corev1.ContainerStatus that says whether it runs.
type containerStatus struct {
	State struct {
		Terminated *struct{} `json:"terminated"`
		Waiting    *struct{} `json:"waiting"`
	} `json:"state"`
}

// names are the VolumeAttributesClasses that claims and volumes name. Those that name none are not in it.
type names struct {
	by    map[source][]string
	count map[string]int // by class
}

// source is a claim or a volume.
type source struct {
	of  kinds.GroupResource
	key wire.Key
}

func newNames() names { return names{map[source][]string{}, map[string]int{}} }

// change notes a change of a claim or a volume, and returns the classes that it names no longer.
func (n *names) change(gr kinds.GroupResource, before, after *wire.Object) (left []string) {
	o := after
	if o == nil {
		o = before
	}
	from := source{gr, o.Key()}
	last, now := n.by[from], classesOf(after)
	for _, class := range now {
		n.count[class]++
	}
	for _, class := range last {
		if n.count[class]--; n.count[class] == 0 {
			delete(n.count, class)
		}
		if !slices.Contains(now, class) {
			left = append(left, class)
		}
	}
	if len(now) > 0 {
		n.by[from] = now
	} else {
		delete(n.by, from)
	}
	return left
}

// classesOf returns the classes that a claim or a volume names, each once; none for nil.
func classesOf(o *wire.Object) []string {
	if o == nil {
		return nil
	}
	text := o.JSON()
	if !bytes.Contains(text, []byte("olumeAttributesClassName")) { // at the end of each of them
		return nil
	}
	var is struct {
		Spec struct {
			Class string `json:"volumeAttributesClassName"`
		} `json:"spec"`
		Status struct {
			Current string `json:"currentVolumeAttributesClassName"`
			Modify  struct {
				Target string `json:"targetVolumeAttributesClassName"`
			} `json:"modifyVolumeStatus"`
		} `json:"status"`
	}
	_ = json.Unmarshal(text, &is) // what is stored is a claim or a volume
	all := []string{is.Spec.Class, is.Status.Current, is.Status.Modify.Target}
	return distinct(slices.DeleteFunc(all, func(name string) bool { return name == "" }))
}
