package pods

import (
	"context"
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
)

// AlwaysPullImages is upstream's plugin of this name: each start of a container asks the registry for its image, so
// that nobody runs an image that is on the node without the credentials for it.
func AlwaysPullImages() plugins.Plugin {
	return plugins.Plugin{
		Name:     "AlwaysPullImages",
		Concerns: []plugins.Concern{{Resource: pods, Operations: []upstream.Operation{upstream.Create, upstream.Update}}},
		Admit: func(_ context.Context, w *plugins.Write) error {
			if sameImages(w) {
				return nil
			}
			for _, at := range pulled(w.Object) {
				if at.in[at.field] != string(corev1.PullAlways) {
					at.in[at.field] = string(corev1.PullAlways)
				}
			}
			return nil
		},
		Validate: func(_ context.Context, w *plugins.Write) error {
			if sameImages(w) {
				return nil
			}
			var errs []error
			for path, at := range pulled(w.Object) {
				if policy := plugins.Text(at.in, at.field); policy != string(corev1.PullAlways) {
					errs = append(errs, upstream.NewForbidden(w,
						field.NotSupported(path, corev1.PullPolicy(policy), []string{string(corev1.PullAlways)})))
				}
			}
			return utilerrors.NewAggregate(errs)
		},
	}
}

// pull is a place in a pod that says when an image is pulled.
type pull struct {
	in    map[string]any
	field string
}

// pulled yields these places.
func pulled(pod *unstructured.Unstructured) iter.Seq2[*field.Path, pull] {
	return func(yield func(*field.Path, pull) bool) {
		spec, _ := pod.Object["spec"].(map[string]any)
		for path, c := range containers(spec) {
			if !yield(path.Child("imagePullPolicy"), pull{c, "imagePullPolicy"}) {
				return
			}
		}
		volumes, _ := spec["volumes"].([]any)
		for i, v := range volumes {
			volume, _ := v.(map[string]any)
			image, is := volume["image"].(map[string]any)
			path := field.NewPath("spec", "volumes").Index(i).Child("image", "pullPolicy")
			if is && !yield(path, pull{image, "pullPolicy"}) {
				return
			}
		}
	}
}

// containers yields the containers of a pod in upstream's order (pkg/api/v1/pod VisitContainers).
func containers(spec map[string]any) iter.Seq2[*field.Path, map[string]any] {
	return func(yield func(*field.Path, map[string]any) bool) {
		for _, name := range []string{"initContainers", "containers", "ephemeralContainers"} {
			list, _ := spec[name].([]any)
			for i, item := range list {
				c, is := item.(map[string]any)
				if is && !yield(field.NewPath("spec", name).Index(i), c) {
					return
				}
			}
		}
	}
}

// sameImages reports whether a write is an update that brings no image.
func sameImages(w *plugins.Write) bool {
	if w.GetOperation() != upstream.Update {
		return false
	}
	had := map[string]bool{}
	before, _ := w.Old.Object["spec"].(map[string]any)
	for _, c := range containers(before) {
		had[plugins.Text(c, "image")] = true
	}
	now, _ := w.Object.Object["spec"].(map[string]any)
	for _, c := range containers(now) {
		if !had[plugins.Text(c, "image")] {
			return false
		}
	}
	return true
}
