package security

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/gapless-io/gapless/internal/wire"
)

// Bounds of what is looked at when a namespace gets a stricter level, as upstream's (pod-security-admission admission.go).
const (
	mostPods = 3000
	mostTime = time.Second
)

// existing returns the warnings about the pods of a namespace that a level would refuse.
func (p *plugin) existing(ctx context.Context, namespace string, level api.LevelVersion) []string {
	if p.cluster.UnknownOf(pods, namespace, "") != nil { // before the look
		return []string{"failed to list pods while checking new PodSecurity enforce level"}
	}
	deadline := time.Now().Add(mostTime)
	if last, is := ctx.Deadline(); is {
		if half := time.Now().Add(time.Until(last) / 2); half.Before(deadline) {
			deadline = half
		}
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	s := survey{plugin: p, level: level, controllers: map[types.UID]bool{}, found: map[string]violation{}}
	s.run(ctx, namespace)
	return s.warnings(namespace)
}

// violation is one that pods have in common.
type violation struct {
	first string // of the pods' names
	count int
}

// survey looks at pods.
type survey struct {
	*plugin

	level api.LevelVersion
	// total is how many pods there are that are not exempt, looked how many of them were looked at.
	total, looked int
	seen          int                // the pods that were read, also exempt ones
	controllers   map[types.UID]bool // of the pods that were looked at
	found         map[string]violation
}

// storedPod is what is read of a pod.
type storedPod struct {
	Metadata struct {
		Name            string                  `json:"name"`
		Annotations     map[string]string       `json:"annotations"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec corev1.PodSpec `json:"spec"`
}

// run looks at one pod of each controller first, as upstream: they mostly resemble each other.
func (s *survey) run(ctx context.Context, namespace string) {
	var others []*wire.Object
	for o := range s.cluster.Objects(pods, namespace) {
		if s.full(ctx) {
			s.total++ // upstream does not count those that are exempt
			continue
		}
		s.seen++
		pod, err := decodePod(o)
		if err != nil {
			continue // upstream would not list it
		}
		if class := pod.Spec.RuntimeClassName; class != nil && s.exemptRuntimes[*class] {
			continue
		}
		s.total++
		if uid := pod.controller(); uid != "" {
			if s.controllers[uid] {
				if len(others) < mostPods {
					others = append(others, o)
				}
				continue
			}
			s.controllers[uid] = true
		}
		s.look(pod)
	}
	for _, o := range others {
		if s.full(ctx) {
			return
		}
		if pod, err := decodePod(o); err == nil {
			s.look(pod)
		}
	}
}

// full reports whether enough was looked at: at least one pod, unless there are many others before it.
func (s *survey) full(ctx context.Context) bool {
	return s.looked >= mostPods || ctx.Err() != nil && (s.looked > 0 || s.seen >= mostPods)
}

func decodePod(o *wire.Object) (*storedPod, error) {
	pod := &storedPod{}
	return pod, json.Unmarshal(o.JSON(), pod)
}

func (pod *storedPod) controller() types.UID {
	for _, owner := range pod.Metadata.OwnerReferences {
		if owner.Controller != nil && *owner.Controller {
			return owner.UID
		}
	}
	return ""
}

func (s *survey) look(pod *storedPod) {
	s.looked++
	metadata := metav1.ObjectMeta{Annotations: pod.Metadata.Annotations}
	result := policy.AggregateCheckResults(s.checks.EvaluatePod(s.level, &metadata, &pod.Spec))
	if result.Allowed {
		return
	}
	v, seen := s.found[result.ForbiddenReason()]
	if !seen || pod.Metadata.Name < v.first {
		v.first = pod.Metadata.Name
	}
	v.count++
	s.found[result.ForbiddenReason()] = v
}

func (s *survey) warnings(namespace string) (all []string) {
	if s.looked < s.total {
		all = append(all, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods",
			s.looked, s.total))
	}
	if len(s.found) == 0 {
		return all
	}
	all = append(all, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace,
		s.level.String()))
	var about []string
	for reason, v := range s.found {
		others := ""
		switch {
		case v.count == 2:
			others = " (and 1 other pod)"
		case v.count > 2:
			others = fmt.Sprintf(" (and %d other pods)", v.count-1)
		}
		about = append(about, v.first+others+": "+reason)
	}
	slices.Sort(about)
	return append(all, about...)
}
