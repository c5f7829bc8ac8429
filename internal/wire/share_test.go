package wire

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/wire/texts"
	"github.com/gapless-io/gapless/kube"
)

// managedBy is an object in the stored form with managers. Some have no time.
func managedBy(name string, managers ...string) []byte {
	b := fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"finalizers":["f"],"labels":{"a":"b"},"managedFields":[`)
	for i, manager := range managers {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b,
			`{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:%s":{}}},"manager":%q,"operation":"Update"`,
			strings.Repeat("k", 100), manager)
		if !strings.HasPrefix(manager, "timeless") {
			b = append(b, `,"time":"2026-11-23T10:00:00Z"`...)
		}
		b = append(b, '}')
	}
	return fmt.Appendf(b, `],"name":%q,"namespace":"d","ownerReferences":[{"uid":"u"}]},"data":{"x":"y"}}`, name)
}

// sharing returns an object as it is, and as it is when it shares its managers.
func sharing(tb testing.TB, set *texts.Set, value []byte) (plain, shared *Object) {
	tb.Helper()
	plain, err := NewObject(value, 7, nil)
	if err != nil {
		tb.Fatalf("make an object: %v", err)
	}
	plain.Share(set) // once seen is not enough
	shared, err = NewSharing(value, 7, nil, set)
	if err != nil {
		tb.Fatalf("make a sharing: %v", err)
	}
	if other := plain.Share(set); !bytes.Equal(other.raw, shared.raw) || other.at != shared.at ||
		cap(shared.raw) > len(shared.raw)+64 {
		tb.Errorf("it is\n%s\nand when it is made from an object\n%s", shared.raw, other.raw)
	}
	return plain, shared
}

func TestASharingObjectIsTheSame(t *testing.T) {
	for _, managers := range [][]string{
		{"one"}, {"one", "two"}, {"timeless"}, {"one", "timeless", "two"}, {"x", "y", "z", "one", "timeless2"},
	} {
		plain, o := sharing(t, texts.New(), managedBy("n", managers...))
		if len(o.shared) != len(managers) || len(o.raw) > len(plain.raw)-100*len(managers) {
			t.Fatalf("%d of %d managers are shared", len(o.shared), len(managers))
		}
		other, err := plain.WithContent(map[string]any{"metadata": map[string]any{"name": "n"}})
		if err != nil {
			t.Fatalf("with content: %v", err)
		}
		for name, of := range map[string]func(*Object) []byte{
			"JSON":         (*Object).JSON,
			"Value":        (*Object).Value,
			"Untyped":      (*Object).Untyped,
			"Metadata":     (*Object).Metadata,
			"Size":         func(o *Object) []byte { return fmt.Append(nil, o.Size()) },
			"Parts":        func(o *Object) []byte { return slices.Concat(o.Parts([][]byte{[]byte("x")})...) },
			"UntypedParts": func(o *Object) []byte { return slices.Concat(o.UntypedParts(nil)...) },
			"unmanaged":    func(o *Object) []byte { return o.WithoutManagedFields().JSON() },
			"version":      func(o *Object) []byte { return o.WithResourceVersion(123456).JSON() },
			"versions":     func(o *Object) []byte { return o.WithResourceVersion(123456).WithResourceVersion(9).Value() },
			"apiVersion":   func(o *Object) []byte { return o.WithAPIVersion("example.com/v1beta1").JSON() },
			"apiVersion, rv": func(o *Object) []byte {
				return o.WithAPIVersion("b").WithResourceVersion(8).UntypedParts(nil)[0][:20]
			},
			"finalizers": func(o *Object) []byte { return fmt.Append(nil, o.Finalizers()) },
			"owners": func(o *Object) []byte {
				return fmt.Append(nil, SameOwnerReferences(o, plain), SameOwnerReferences(o, other))
			},
			"again": func(o *Object) []byte { return o.Share(texts.New()).JSON() },
		} {
			if got, want := of(o), of(plain); !bytes.Equal(got, want) {
				t.Errorf("%v: %s:\n%s\nwant\n%s", managers, name, got, want)
			}
		}
	}
}

// kube-apiserver writes the members of its objects in the order of its structs: the time of a manager
// comes before its fields.
func TestObjectsInKubeAPIServersOrderShareTheirManagers(t *testing.T) {
	object := func(name, time string) []byte {
		return fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"uid":"u","resourceVersion":"9",`+
			`"creationTimestamp":%[2]q,"managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"v1","time":%[2]q,`+
			`"fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:%[3]s":{}}}},{"manager":"late","operation":"Apply","apiVersion":"v1",`+
			`"fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:%[3]s":{}}}}]},"data":{"x":"y"}}`, name, time,
			strings.Repeat("k", 100))
	}
	set := texts.New()
	for i, want := range []int{0, 2, 2} {
		raw := object(fmt.Sprint("n", i), fmt.Sprintf("2026-11-23T10:00:%02dZ", i))
		plain, err := ParseObject(raw, nil)
		if err != nil {
			t.Fatalf("parse the object: %v", err)
		}
		o := plain.Share(set)
		if len(o.shared) != want {
			t.Errorf("object %d shares %d texts, want %d", i, len(o.shared), want)
		}
		if got := slices.Concat(o.UntypedParts(nil)...); !bytes.Equal(o.JSON(), raw) || !bytes.Equal(got, plain.Untyped()) ||
			o.untypedFrom() == 0 {
			t.Errorf("%s\nbecame %s\nuntyped %s", raw, o.JSON(), got)
		}
	}
}

func TestObjectsShareWhatOccursTwice(t *testing.T) {
	set := texts.New()
	var all []*Object
	for i := range 3 {
		o, err := NewObject(managedBy(fmt.Sprint(i), "one", "two"), kube.ResourceVersion(i+1), nil)
		if err != nil {
			t.Fatalf("make an object: %v", err)
		}
		all = append(all, o.Share(set))
	}
	if len(all[0].shared) != 0 || len(all[1].shared) != 2 || len(all[2].shared) != 2 {
		t.Errorf("%d, %d and %d are shared", len(all[0].shared), len(all[1].shared), len(all[2].shared))
	}
	for i := range all[1].shared {
		if all[1].shared[i].Text != all[2].shared[i].Text {
			t.Error("two objects have texts of their own")
		}
	}
	runtime.KeepAlive(all)
}

func FuzzShare(f *testing.F) {
	f.Add(managedBy("n", "one", "timeless", "two"))
	f.Add(
		[]byte(
			`{"metadata":{"managedFields":[{"time":"` + strings.Repeat("x", 100) + `","a":1},[],null],"resourceVersion":"1"}}`))
	f.Add(
		[]byte(
			`{"kind":"A","apiVersion":"b","metadata":{"managedFields":[{"a":"` + strings.Repeat("x",
				100) + `","time":"t","b":"` + strings.Repeat("y", 100) + `"}]}}`))
	f.Add(
		[]byte(
			`{"metadata":{"managedFields":[{"a":"` + strings.Repeat("x",
				100) + `","time":{}}],"managedFields":[{"b":"` + strings.Repeat("y", 100) + `"}]},"apiVersion":"v1"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		plain, err := ParseObject(raw, nil)
		if err != nil {
			return
		}
		set := texts.New()
		plain.Share(set)
		for _, p := range []*Object{plain, plain.WithResourceVersion(77)} {
			o := p.Share(set)
			if !bytes.Equal(o.JSON(), p.JSON()) || o.Size() != len(p.JSON()) ||
				!bytes.Equal(slices.Concat(o.Parts(nil)...), p.JSON()) {
				t.Fatalf("%s became %s", p.JSON(), o.JSON())
			}
			if got, want := slices.Concat(o.UntypedParts(nil)...), p.Untyped(); !bytes.Equal(got, want) {
				t.Fatalf("untyped %s became %s", want, got)
			}
			if got, want := o.WithResourceVersion(5).WithAPIVersion("x/v1").Value(), p.WithResourceVersion(5).WithAPIVersion(
				"x/v1").Value(); !bytes.Equal(got, want) {
				t.Fatalf("%s became %s", want, got)
			}
		}
	})
}
