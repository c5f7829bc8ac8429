package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/schema/builtin"
	"github.com/gapless-io/gapless/kube"
)

// readBody reads the whole body, 413 if it is over MaxBodyBytes.
func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > MaxBodyBytes {
		return nil, kube.TooLargeBody(MaxBodyBytes)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBodyBytes+1))
	switch {
	case err != nil && r.Context().Err() != nil:
		return nil, r.Context().Err()
	case err != nil:
		return nil, kube.BadRequest("read the body: %v", err)
	case len(body) > MaxBodyBytes:
		return nil, kube.TooLargeBody(MaxBodyBytes)
	}
	return body, nil
}

// readObject reads a body in any of its media types and returns it as JSON.
func readObject(r *http.Request, rt route) ([]byte, error) {
	media, err := mediaType(r)
	if err != nil {
		return nil, err
	}
	accepted := bodyTypes(rt.Resource)
	if !slices.Contains(accepted, media) {
		return nil, kube.UnsupportedMediaType(accepted)
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	switch media {
	case mediaYAML:
		converted, err := yaml.YAMLToJSONStrict(body)
		if err != nil {
			return nil, kube.BadRequest("the object provided is unrecognized: yaml: %v", err)
		}
		return converted, nil
	case mediaProtobuf:
		return rt.Resource.Type.DecodeProtobuf(body)
	}
	return body, nil
}

// readPatch reads a patch; its media type must be one that the resource takes.
func readPatch(r *http.Request, rt route) (Patch, error) {
	media, err := mediaType(r)
	if err != nil || !slices.Contains(rt.Resource.PatchTypes, media) {
		return Patch{}, kube.UnsupportedMediaType(rt.Resource.PatchTypes)
	}
	body, err := readBody(r)
	return Patch{Type: types.PatchType(media), Body: body}, err
}

// deleteOptions reads DeleteOptions from the body, or without one from the query.
func deleteOptions(r *http.Request) (metav1.DeleteOptions, error) {
	var o metav1.DeleteOptions
	body, err := readBody(r)
	if err != nil {
		return o, err
	}
	if len(body) > 0 {
		return decodeDeleteOptions(r, body)
	}
	q := r.URL.Query()
	o.DryRun = q["dryRun"]
	if text := q.Get("gracePeriodSeconds"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return o, kube.BadRequest("gracePeriodSeconds: %v", err)
		}
		o.GracePeriodSeconds = &seconds
	}
	if q.Has("orphanDependents") {
		orphan := kube.ParseBool(q, "orphanDependents")
		o.OrphanDependents = &orphan //nolint:staticcheck // deprecated, and still sent by old clients
	}
	if policy := metav1.DeletionPropagation(q.Get("propagationPolicy")); policy != "" {
		o.PropagationPolicy = &policy
	}
	return o, nil
}

func decodeDeleteOptions(r *http.Request, body []byte) (metav1.DeleteOptions, error) {
	media, err := mediaType(r)
	if err != nil {
		return metav1.DeleteOptions{}, err
	}
	switch media {
	case mediaProtobuf:
		o, err := builtin.DecodeDeleteOptions(body)
		if err != nil {
			return metav1.DeleteOptions{}, err
		}
		return *o, nil
	case mediaJSON, mediaYAML:
		var o metav1.DeleteOptions
		decode := func() error { return json.Unmarshal(body, &o) }
		if media == mediaYAML {
			decode = func() error { return yaml.Unmarshal(body, &o) }
		}
		if err := decode(); err != nil {
			return o, kube.BadRequest("decode DeleteOptions: %v", err)
		}
		if o.Kind != "" && o.Kind != "DeleteOptions" {
			return o, kube.BadRequest("the body of a DELETE must be DeleteOptions, not %s", o.Kind)
		}
		return o, nil
	}
	return metav1.DeleteOptions{}, kube.UnsupportedMediaType(bodyTypes(nil))
}

// isGone says that a request failed because its client left. A request whose time
// is over is another thing: its client waits for the answer.
func isGone(r *http.Request, err error) bool {
	return errors.Is(r.Context().Err(), context.Canceled) && errors.Is(err, context.Canceled)
}
