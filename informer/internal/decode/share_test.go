package decode_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/informer/internal/decode"
)

// podOf is a pod that has something of its own and the rest of its set.
func podOf(set, n int) string {
	return fmt.Sprintf(
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"pod-%[1]d-%[2]d","namespace":"ns","uid":"uid-%[2]d","resourceVersion":"%[2]d",`+
			`"labels":{"app":"app-%[1]d","team":"core"},"annotations":{"own":"%[2]d"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"set-%[1]d","uid":"s","controller":true}],`+
			`"managedFields":[{"manager":"kubelet","time":"2026-01-02T03:04:05Z","fieldsV1":{"f:status":{"f:phase":{},"k:{\"set\":\"%[1]d\"}":{}}}}]},`+
			`"spec":{"volumes":[{"name":"token-%[2]d","projected":{"sources":[{"configMap":{"name":"root","items":[{"key":"ca.crt","path":"ca.crt"}]}}],"defaultMode":420}}],`+
			`"containers":[{"name":"app","image":"image-%[1]d","env":[{"name":"A","value":"b"},{"name":"IP","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}}],`+
			`"resources":{"limits":{"cpu":"500m","memory":"256Mi"}},"volumeMounts":[{"name":"token-%[2]d","mountPath":"/var"}]}],"nodeSelector":{},"securityContext":{"runAsUser":%[1]d,"runAsNonRoot":true},`+
			`"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300}]},`+
			`"status":{"phase":"Running","startTime":"2026-01-02T03:04:05Z"}}`, set, n)
}

// mutated spoils a text, or only makes it another one.
func mutated(r *rand.Rand, text string) string {
	at := r.IntN(len(text))
	switch r.IntN(8) {
	case 0:
		return text[:at] + text[at+1:]
	case 1:
		return text[:at] + string("{}[],:\"\\ \n0aeE.-\xff"[r.IntN(17)]) + text[at:]
	case 2:
		return text[:at]
	case 3:
		return strings.ReplaceAll(text, ",", ", ")
	case 4:
		return strings.Replace(text, `"labels":{`, `"labels":{"new":"one",`, 1)
	case 5: // a member that comes twice
		return strings.Replace(text, `"tolerations":[`, `"tolerations":[{"key":"first","value":"v"}],"tolerations":[`, 1)
	case 6:
		return strings.Replace(text, `"containers":[`, `"containers":[{"name":"sidecar"},`, 1)
	}
	other := at + r.IntN(len(text)-at)
	return text[:at] + text[other:]
}

// stock decodes as the informer's slow decoder does.
func stock[T any](raw []byte) (T, error) {
	var o T
	err := json.Unmarshal(raw, &o, json.JoinOptions(jsonv1.DefaultOptionsV1(), json.MatchCaseInsensitiveNames(false)))
	return o, err
}

// TestSharedDecodingEqualsEncodingJSON decodes pods of a few sets, sound and
// spoilt ones, in random order, several times and by several goroutines, from a buffer
// that is overwritten afterwards.
func TestSharedDecodingEqualsEncodingJSON(t *testing.T) {
	t.Run("typed", sharedAsStock[*corev1.Pod])
	t.Run("dynamic", sharedAsStock[*unstructured.Unstructured])
	t.Run("partial", sharedAsStock[*metav1.PartialObjectMetadata])
}

func sharedAsStock[T any](t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // reproducible from the seed
	type answer struct {
		text string
		want T
		err  error
	}
	var corpus []answer
	size := 400
	if testing.Short() {
		size = 60
	}
	for n := range size {
		text := podOf(n%7, n)
		if n%4 == 0 {
			text = mutated(r, text)
		}
		want, err := stock[T]([]byte(text))
		corpus = append(corpus, answer{text, want, err})
	}
	d := decode.New(stock[T])
	d.Share()
	var wg sync.WaitGroup
	for worker := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, worker)) //nolint:gosec // reproducible from the seed
			var buffer []byte
			for range 3 * len(corpus) {
				a := corpus[r.IntN(len(corpus))]
				buffer = append(buffer[:0], a.text...)
				got, err := d.Decode(buffer)
				for i := range buffer {
					buffer[i] = '!'
				}
				if (err != nil) != (a.err != nil) || err == nil && !reflect.DeepEqual(got, a.want) {
					t.Errorf("seed %d: %s: %v, want %v:\n%s", seed, a.text, err, a.err, cmp.Diff(a.want, got))
					return
				}
			}
		})
	}
	wg.Wait()
	// What was handed out and is remembered did not change meanwhile.
	for _, a := range corpus {
		if got, err := d.Decode([]byte(a.text)); err == nil && !reflect.DeepEqual(got, a.want) {
			t.Errorf("seed %d: %s, at the end:\n%s", seed, a.text, cmp.Diff(a.want, got))
		}
	}
	if d.Remembered() == 0 {
		t.Error("nothing is remembered")
	}
}

// sharing returns a decoder that has seen two pods of each of three sets.
func sharing[T any](t *testing.T) *decode.Decoder[T] {
	t.Helper()
	d := fastOnly[T]()
	d.Share()
	for n := range 6 {
		if _, err := d.Decode([]byte(podOf(n%3, n))); err != nil {
			t.Fatalf("decode: %v", err)
		}
	}
	return d
}

func decoded[T any](t *testing.T, decode func([]byte) (T, error), text string) T {
	t.Helper()
	got, err := decode([]byte(text))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return got
}

func TestEqualPartsOfObjectsShareMemory(t *testing.T) {
	d := sharing[*corev1.Pod](t)
	a, b, other := decoded(t, d.Decode, podOf(1, 100)), decoded(t, d.Decode, podOf(1, 200)), decoded(t, d.Decode, podOf(2, 300))
	for name, one := range map[string]func(*corev1.Pod) any{
		"labels":            func(p *corev1.Pod) any { return reflect.ValueOf(p.Labels).Pointer() },
		"owners":            func(p *corev1.Pod) any { return &p.OwnerReferences[0] },
		"managed fields":    func(p *corev1.Pod) any { return p.ManagedFields[0].FieldsV1 },
		"security context":  func(p *corev1.Pod) any { return p.Spec.SecurityContext },
		"tolerations":       func(p *corev1.Pod) any { return &p.Spec.Tolerations[0] },
		"env":               func(p *corev1.Pod) any { return &p.Spec.Containers[0].Env[0] },
		"projected volumes": func(p *corev1.Pod) any { return p.Spec.Volumes[0].Projected },
	} {
		if one(a) != one(b) {
			t.Errorf("%s are two", name)
		}
	}
	if reflect.ValueOf(a.Annotations).Pointer() == reflect.ValueOf(b.Annotations).Pointer() ||
		&a.Spec.Containers[0] == &b.Spec.Containers[0] {
		t.Error("what is different is one")
	}
	if reflect.ValueOf(a.Labels).Pointer() == reflect.ValueOf(other.Labels).Pointer() || other.Labels["app"] != "app-2" {
		t.Errorf("the labels of another set: %v", other.Labels)
	}

	u := sharing[*unstructured.Unstructured](t)
	at := func(n int, path ...string) uintptr {
		value, _, _ := unstructured.NestedFieldNoCopy(decoded(t, u.Decode, podOf(1, n)).Object, path...)
		return reflect.ValueOf(value).Pointer()
	}
	for _, path := range [][]string{{"metadata", "labels"}, {"metadata", "ownerReferences"}, {"spec", "tolerations"}} {
		if at(100, path...) != at(200, path...) {
			t.Errorf("%v are two in dynamic objects", path)
		}
	}
	if at(100, "spec", "containers") == at(200, "spec", "containers") {
		t.Error("what is different is one in dynamic objects")
	}
}

func TestAnObjectDecodedAloneSharesNothing(t *testing.T) {
	d := sharing[*corev1.Pod](t)
	a, b := decoded(t, d.DecodeAlone, podOf(1, 100)), decoded(t, d.Decode, podOf(1, 200))
	if reflect.ValueOf(a.Labels).Pointer() == reflect.ValueOf(b.Labels).Pointer() ||
		&a.Spec.Tolerations[0] == &b.Spec.Tolerations[0] ||
		a.Spec.SecurityContext == b.Spec.SecurityContext {
		t.Error("it shares something")
	}
	a.Labels["app"] = "changed"
	if c := decoded(t, d.Decode, podOf(1, 300)); c.Labels["app"] != "app-1" {
		t.Error("what was decoded alone is remembered")
	}
	unasked := fastOnly[*corev1.Pod]()
	first, second := decoded(t, unasked.Decode, podOf(1, 1)), decoded(t, unasked.Decode, podOf(1, 1))
	if third := decoded(t, unasked.Decode, podOf(1, 1)); first.Spec.SecurityContext == third.Spec.SecurityContext ||
		second.Spec.SecurityContext == third.Spec.SecurityContext {
		t.Error("a decoder shares without being asked to")
	}
}

// TestSharedSlicesHaveNoSpareCapacity, so that append copies them.
func TestSharedSlicesHaveNoSpareCapacity(t *testing.T) {
	d := sharing[*corev1.Pod](t)
	for n := range 20 {
		walk(reflect.ValueOf(decoded(t, d.Decode, podOf(n%4, n))), func(v reflect.Value) {
			if v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 && v.Cap() != v.Len() {
				t.Errorf("a %v of %d has room for %d", v.Type(), v.Len(), v.Cap())
			}
		})
	}
	u := sharing[*unstructured.Unstructured](t)
	for n := range 20 {
		walk(reflect.ValueOf(decoded(t, u.Decode, podOf(n%4, n)).Object), func(v reflect.Value) {
			if v.Kind() == reflect.Slice && v.Cap() != v.Len() {
				t.Errorf("a list of %d has room for %d", v.Len(), v.Cap())
			}
		})
	}
}

// walk visits all values below v.
func walk(v reflect.Value, visit func(reflect.Value)) {
	visit(v)
	switch v.Kind() { //nolint:exhaustive // the others have nothing below
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), visit)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			walk(field, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), visit)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			walk(v.MapIndex(key), visit)
		}
	}
}

func TestRememberedValuesAreBounded(t *testing.T) {
	d := fastOnly[*corev1.Pod]()
	d.Share()
	most := 0
	texts := 40_000 // 2 KB each, twice: 80 MB in all
	if testing.Short() {
		texts = 2000 // less than the bound: only that something is remembered
	}
	for n := range texts {
		text := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d","long":"%s"}}}`, n, strings.Repeat("x", 2000))
		for range 2 {
			decoded(t, d.Decode, text)
		}
		most = max(most, d.Remembered())
	}
	if most > decode.MostRemembered || most < 1<<20 {
		t.Errorf("%d bytes are remembered, more than %d or next to nothing", most, decode.MostRemembered)
	}
}

func TestUnusedValuesAreForgotten(t *testing.T) {
	d := sharing[*corev1.Pod](t)
	kept := weak.Make(decoded(t, d.Decode, podOf(1, 100)).Spec.SecurityContext)
	runtime.GC()
	if kept.Value() == nil {
		t.Fatal("it was not remembered")
	}
	big := []byte(`{"unknown":"` + strings.Repeat("x", 1<<20) + `"}`)
	for read := 0; read < 2*decode.Forgetting; read += len(big) {
		if _, err := d.Decode(big); err != nil {
			t.Fatalf("decode: %v", err)
		}
	}
	runtime.GC()
	if kept.Value() != nil {
		t.Error("it is still remembered")
	}
}

// TestFieldsWithDistinctValuesAreSkippedForAWhile: what never comes again is not looked for, and
// when it begins to come again, that is found out.
func TestFieldsWithDistinctValuesAreSkippedForAWhile(t *testing.T) {
	d := fastOnly[*corev1.Pod]()
	d.Share()
	labels := func(n int) uintptr {
		p := decoded(t, d.Decode, fmt.Sprintf(`{"metadata":{"labels":{"n":"%d","more":"a long value"}}}`, n))
		return reflect.ValueOf(p.Labels).Pointer()
	}
	for n := range 2000 {
		labels(n)
	}
	for range 10 {
		if one, other := labels(-1), labels(-1); one == other {
			t.Fatal("values are looked for though none came twice")
		}
	}
	for range 20_000 {
		labels(-1)
	}
	if one, other := labels(-1), labels(-1); one != other {
		t.Error("values are not looked for, though all are the same")
	}
}

func TestDynamicObjectsOfManyShapesAreDecoded(t *testing.T) {
	d := decode.New(stock[*unstructured.Unstructured])
	d.Share()
	for round := range 3 {
		for n := range 2000 {
			text := fmt.Appendf(nil,
				`{"kind":"K","metadata":{"m%d":{"a":[1,2,{"b":"a long value"}]}},"o%d":{"p%d":{"deep":[{"n":%d}]}}}`, n, n, n%500,
				n)
			got, err := d.Decode(text)
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			want, err := stock[*unstructured.Unstructured](text)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("round %d: %s: %v\n%s", round, text, err, cmp.Diff(want, got))
			}
		}
	}
	if d.Remembered() == 0 {
		t.Error("nothing is remembered")
	}
}
