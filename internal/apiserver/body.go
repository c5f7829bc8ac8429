package apiserver

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/warning"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/kinds/yamltext"
	"github.com/gapless-io/gapless/internal/wire"
)

// readObject returns a body in any of its media types as JSON. Errors: 400, 413, 415, and
// those of load.CheckDepth.
func readObject(r *http.Request, t kinds.Target, load *limit.Load) ([]byte, error) {
	contentType, err := media.Of(r)
	if err != nil {
		return nil, err
	}
	scale := t.Subresource == "scale"
	accepted := media.Bodies(t.Resource)
	if scale { // a Scale has a protobuf form, also that of a custom resource
		accepted = media.Bodies(nil)
	}
	if !slices.Contains(accepted, contentType) {
		return nil, wire.UnsupportedMediaType(accepted)
	}
	body := limit.Received(r)
	switch contentType {
	case media.YAML:
		converted, duplicates, err := yamlToJSON(body)
		if err != nil {
			return nil, err
		}
		if err := load.CheckDepth(converted); err != nil || duplicates == nil {
			return converted, err
		}
		return converted, duplicated(r, t, converted, duplicates)
	case media.Protobuf:
		if scale {
			return gokind.DecodeScale(body)
		}
		return t.BodyType().DecodeProtobuf(body)
	}
	return body, load.CheckDepth(body)
}

// yamlToJSON converts a body, in which the last of duplicate keys counts. duplicates says which
// there are, nil for none.
func yamlToJSON(body []byte) (converted []byte, duplicates, err error) {
	converted, duplicates, err = yamltext.ToJSONWithDuplicates(body, kinds.MaxObjectBytes)
	if large, is := errors.AsType[*yamltext.SizeError](err); is {
		return nil, nil, wire.TooLarge("%s", large.Error())
	}
	if err != nil {
		return nil, nil, wire.BadRequest("the object provided is unrecognized: yaml: %v", err)
	}
	return converted, duplicates, nil
}

// strictly begins the problems of a body that is refused for them.
const strictly = "strict decoding error: "

// duplicated does about the duplicate keys of a YAML body what fieldValidation asks for. They are not
// in the JSON any more, so that the decoder of the kind cannot know them. Upstream names them before
// other fields that it refuses.
func duplicated(r *http.Request, t kinds.Target, converted []byte, duplicates error) error {
	v := kinds.FieldValidation(r.URL.Query().Get("fieldValidation"))
	if v != kinds.FieldsStrict {
		for _, text := range yamltext.Lines(duplicates) {
			if v != kinds.FieldsIgnore {
				warning.AddWarning(r.Context(), "", text)
			}
		}
		return nil
	}
	if t.Subresource != "scale" {
		if _, _, err := t.BodyType().Decode(converted, v); err != nil {
			refused, is := errors.AsType[*wire.StatusError](err)
			if is && strings.Contains(refused.ErrStatus.Message, strictly) {
				refused.ErrStatus.Message = strings.Replace(refused.ErrStatus.Message, strictly, strictly+duplicates.Error()+", ",
					1)
			}
			return err
		}
	}
	kind := kindOf(t)
	return wire.BadRequest("%s in version %q cannot be handled as a %s: %s%v",
		kind.Kind, kind.Version, kind.Kind, strictly, duplicates)
}

// kindOf is the kind of a body.
func kindOf(t kinds.Target) kinds.GroupVersionKind {
	if t.Subresource == "scale" {
		return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	}
	if sub := t.Resource.Subresource(t.Subresource); sub != nil {
		return sub.Kind
	}
	return t.Resource.GVK()
}

// readPatch returns a patch, whose media type must be one that the resource accepts. Errors:
// 415, and those of load.CheckDepth.
func readPatch(r *http.Request, t kinds.Target, load *limit.Load) (wire.Patch, error) {
	contentType, err := media.Of(r)
	if err != nil || !slices.Contains(t.Resource.PatchTypes, contentType) {
		return wire.Patch{}, wire.UnsupportedMediaType(t.Resource.PatchTypes)
	}
	p := wire.Patch{Type: types.PatchType(contentType), Body: limit.Received(r)}
	if p.Type == types.ApplyYAMLPatchType {
		return p, nil // its depth is that of the JSON that the registry makes of it
	}
	return p, load.CheckDepth(p.Body)
}

// readDeleteOptions reads DeleteOptions from the body, or without one from the query q.
// Errors: 400, 415.
func readDeleteOptions(r *http.Request, q url.Values) (metav1.DeleteOptions, error) {
	if body := limit.Received(r); len(body) > 0 {
		return decodeDeleteOptions(r, body)
	}
	return queriedDeleteOptions(q)
}

// queriedDeleteOptions reads DeleteOptions from the query, with the preconditions
// uid and resourceVersion (apimachinery meta/v1 conversion.go
// Convert_url_Values_To_v1_DeleteOptions).
func queriedDeleteOptions(q url.Values) (metav1.DeleteOptions, error) {
	o := metav1.DeleteOptions{DryRun: q["dryRun"]}
	if text := q.Get("gracePeriodSeconds"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return o, wire.BadRequest("gracePeriodSeconds: %v", err)
		}
		o.GracePeriodSeconds = &seconds
	}
	if q.Has("orphanDependents") {
		orphan := wire.ParseBool(q, "orphanDependents")
		o.OrphanDependents = &orphan //nolint:staticcheck // deprecated, and still sent by old clients
	}
	if q.Has("ignoreStoreReadErrorWithClusterBreakingPotential") {
		ignore := wire.ParseBool(q, "ignoreStoreReadErrorWithClusterBreakingPotential")
		o.IgnoreStoreReadErrorWithClusterBreakingPotential = &ignore
	}
	if policy := metav1.DeletionPropagation(q.Get("propagationPolicy")); policy != "" {
		o.PropagationPolicy = &policy
	}
	uid, version := types.UID(q.Get("uid")), q.Get("resourceVersion")
	if uid != "" || version != "" {
		o.Preconditions = &metav1.Preconditions{}
	}
	if uid != "" {
		o.Preconditions.UID = &uid
	}
	if version != "" {
		o.Preconditions.ResourceVersion = &version
	}
	return o, nil
}

func decodeDeleteOptions(r *http.Request, body []byte) (metav1.DeleteOptions, error) {
	contentType, err := media.Of(r)
	if err != nil {
		return metav1.DeleteOptions{}, err
	}
	switch contentType {
	case media.Protobuf:
		o, err := gokind.DecodeDeleteOptions(body)
		if err != nil {
			return metav1.DeleteOptions{}, err
		}
		return *o, nil
	case media.JSON, media.YAML:
		if contentType == media.YAML {
			var duplicates error
			if body, duplicates, err = yamlToJSON(body); err != nil {
				return metav1.DeleteOptions{}, err
			}
			if duplicates != nil {
				return metav1.DeleteOptions{}, wire.BadRequest("decode DeleteOptions: %v", duplicates)
			}
		}
		return strictDeleteOptions(body)
	}
	return metav1.DeleteOptions{}, wire.UnsupportedMediaType(media.Bodies(nil))
}

// strictDeleteOptions reads DeleteOptions and refuses unknown fields. Upstream ignores
// them, and with them a misspelt precondition; a deletion cannot be undone, and DELETE has
// no fieldValidation to ask for strictness.
func strictDeleteOptions(body []byte) (metav1.DeleteOptions, error) {
	var o metav1.DeleteOptions
	unknown, err := kjson.UnmarshalStrict(body, &o)
	if err == nil && o.Kind != "" && o.Kind != "DeleteOptions" {
		return o, wire.BadRequest("the body of a DELETE must be DeleteOptions, not %s", o.Kind)
	}
	if err = errors.Join(append(unknown, err)...); err != nil {
		return o, wire.BadRequest("decode DeleteOptions: %v", err)
	}
	return o, nil
}
