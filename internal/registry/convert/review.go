package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/hook"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
)

// source is the content of an object before its conversion.
type source struct {
	value []byte // in the canonical form
	kind  kinds.GroupVersionKind
}

func sourceOf(o *wire.Object) source {
	return source{value: o.Value(), kind: k8sschema.FromAPIVersionAndKind(o.APIVersion(), o.Kind())}
}

// review has the webhook of a resource convert objects to its version, and counts that.
func (c *Converter) review(ctx context.Context, r *kinds.Resource, sources []source) ([]map[string]any, error) {
	began := time.Now()
	made, err := c.ask(ctx, r, sources)
	c.metrics.called(ctx, began, err)
	return made, err
}

func (c *Converter) ask(ctx context.Context, r *kinds.Resource, sources []source) ([]map[string]any, error) {
	version := reviewVersion(r.Webhook.ReviewVersions)
	if version == "" {
		return nil, wire.Unknown(errors.New("no supported conversion review versions"))
	}
	uid := uuid.NewUUID()
	body, err := request(version, r.APIVersion(), uid, sources)
	if err != nil {
		return nil, failed(sources[0], err)
	}
	answer, err := c.post(ctx, r.Webhook, body)
	if large, is := errors.AsType[*hook.TooLargeError](err); is {
		return nil, failed(sources[0], refused{large})
	}
	if err != nil {
		return nil, failed(sources[0], err)
	}
	raw, err := readAnswer(answer, version, uid)
	if err != nil {
		return nil, failed(sources[0], refused{err})
	}
	if len(raw) != len(sources) {
		return nil, wire.Unknown(fmt.Errorf("conversion webhook for %v returned %w", sources[0].kind,
			refused{fmt.Errorf("%d objects, expected %d", len(raw), len(sources))}))
	}
	made := make([]map[string]any, len(sources))
	for i, s := range sources {
		if made[i], err = accept(s, raw[i], r.GVK().GroupVersion()); err != nil {
			return nil, wire.Unknown(fmt.Errorf("conversion webhook for %v returned invalid %s%w",
				s.kind, which(i, len(sources)), refused{err}))
		}
	}
	return made, nil
}

// post returns the answer to a review, within the time that it may take.
func (c *Converter) post(ctx context.Context, w *kinds.Webhook, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, span := tracing.Start(ctx, "Call conversion webhook")
	answer, err := c.callers.Of(w).Post(ctx, body)
	span.End(err)
	return answer, err
}

// which names an object of a review, as upstream does.
func which(i, n int) string {
	if n == 1 {
		return "object: "
	}
	return fmt.Sprintf("converted object at index %d: ", i)
}

// reviewVersion returns the first version of ConversionReview that is known; "" if none is.
func reviewVersion(accepted []string) string {
	for _, v := range accepted {
		if v == "v1" || v == "v1beta1" {
			return v
		}
	}
	return ""
}

// request returns the body of a review.
func request(version, desired string, uid types.UID, sources []source) ([]byte, error) {
	var body struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
		Request    struct {
			UID               types.UID         `json:"uid"`
			DesiredAPIVersion string            `json:"desiredAPIVersion"`
			Objects           []json.RawMessage `json:"objects"`
		} `json:"request"`
	}
	body.Kind, body.APIVersion = "ConversionReview", apiextensionsv1.GroupName+"/"+version
	body.Request.UID, body.Request.DesiredAPIVersion = uid, desired
	for _, s := range sources {
		body.Request.Objects = append(body.Request.Objects, s.value)
	}
	return json.Marshal(body)
}

// readAnswer returns the converted objects in the answer to a review. Of v1 it checks the
// kind and the uid, of v1beta1 neither, as upstream. The texts of its errors are upstream's.
func readAnswer(body []byte, version string, uid types.UID) ([]k8sruntime.RawExtension, error) {
	if len(body) == 0 {
		return nil, errors.New("0-length response with status code: 200 and content type: application/json")
	}
	// The versions have the same members.
	var review apiextensionsv1.ConversionReview
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	if version == "v1" {
		expected := apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview")
		if got := review.GroupVersionKind(); got != expected {
			return nil, fmt.Errorf("expected webhook response of %v, got %v", expected.String(), got.String())
		}
	}
	answer := review.Response
	switch {
	case answer == nil:
		return nil, errors.New("no response provided")
	case version == "v1" && answer.UID != uid:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, answer.UID)
	case answer.Result.Status == metav1.StatusSuccess:
		return answer.ConvertedObjects, nil
	case answer.Result.Message != "":
		return nil, errors.New(answer.Result.Message)
	}
	return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", answer.Result.Status)
}

// accept returns the content of a converted object with the metadata of its source, of which
// a conversion can change the labels and annotations only.
func accept(s source, raw k8sruntime.RawExtension, to k8sschema.GroupVersion) (map[string]any, error) {
	if err := kinds.CheckSize(raw.Raw); err != nil {
		return nil, err
	}
	if kinds.TooDeep(raw.Raw) {
		return nil, fmt.Errorf("it is nested more than %d levels deep", kinds.MaxDepth)
	}
	content, err := jsontree.Decode(raw.Raw)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{Object: content}
	if out.GetKind() == "" {
		return nil, k8sruntime.NewMissingKindErr(kinds.Excerpt(raw.Raw))
	}
	if got := out.GroupVersionKind().GroupVersion(); got != to {
		return nil, fmt.Errorf("invalid groupVersion (expected %v, received %v)", to, got)
	}
	if got := out.GetKind(); got != s.kind.Kind {
		return nil, fmt.Errorf("invalid kind (expected %v, received %v)", s.kind.Kind, got)
	}
	was, err := jsontree.Decode(s.value)
	if err != nil {
		return nil, err
	}
	in := &unstructured.Unstructured{Object: was}
	for _, same := range []struct {
		name    string
		in, out any
	}{
		{"name", in.GetName(), out.GetName()},
		{"namespace", in.GetNamespace(), out.GetNamespace()},
		{"UID", in.GetUID(), out.GetUID()},
	} {
		if same.in != same.out {
			return nil, fmt.Errorf("must have the same %s: %v != %v", same.name, same.in, same.out)
		}
	}
	return content, restoreMetadata(was, content)
}

// restoreMetadata gives converted content the metadata of its source, but for the labels and
// annotations.
func restoreMetadata(was, content map[string]any) error {
	sent, found := content["metadata"]
	if !found {
		return errors.New("missing metadata in converted object")
	}
	changed, is := sent.(map[string]any)
	if !is {
		return fmt.Errorf("invalid metadata of type %T in converted object", sent)
	}
	before, _ := was["metadata"].(map[string]any)
	metadata := maps.Clone(before)
	if metadata == nil {
		metadata = map[string]any{}
	}
	for _, name := range []string{"labels", "annotations"} {
		delete(metadata, name)
		value := changed[name]
		if value == nil {
			continue
		}
		texts, err := checkTexts(name, value, before[name])
		if err != nil {
			return err
		}
		metadata[name] = texts
	}
	content["metadata"] = metadata
	return nil
}

// checkTexts checks the labels or annotations of a converted object. Those that it had before
// may be invalid.
func checkTexts(name string, value, before any) (map[string]any, error) {
	texts, is := value.(map[string]any)
	if !is {
		return nil, fmt.Errorf("invalid metadata.%s of type %T in converted object", name, value)
	}
	plain := make(map[string]string, len(texts))
	for key, v := range texts {
		if plain[key], is = v.(string); !is {
			return nil, fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, key, v)
		}
	}
	if jsontree.Equal(value, before) {
		return texts, nil
	}
	var errs field.ErrorList
	if name == "labels" {
		errs = metavalidation.ValidateLabels(plain, field.NewPath("metadata", "labels"))
	} else {
		errs = apivalidation.ValidateAnnotations(plain, field.NewPath("metadata", "annotation"))
	}
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return texts, nil
}
