package handle_test

import (
	"encoding/json"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer/internal/handle"
)

type object struct {
	metav1.ObjectMeta `json:"metadata"`

	Content string `json:"content"`
}

const text = `{"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"7"},"content":"some"}`

func decode(raw []byte) (*object, error) {
	o := new(object)
	return o, json.Unmarshal(raw, o)
}

// holder is a packed object under the type that users have.
type holder struct{ *handle.Packed[object] }

func (h holder) Get() *object { return h.Packed.Get() }

// packed returns a packed object, and the object that it was made of.
func packed(t *testing.T) (handle.Handle[*object], *object) {
	t.Helper()
	o, err := decode([]byte(text))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	p, err := handle.NewPacking(decode).Pack([]byte(text), o, handle.Identity{
		Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "7",
	})
	if err != nil {
		t.Fatalf("pack an object: %v", err)
	}
	return handle.In[*object](holder{p}), o
}

func TestPlainAndPackedHandlesReturnTheSameObject(t *testing.T) {
	inPacked, o := packed(t)
	for name, h := range map[string]handle.Handle[*object]{"as it is": handle.Of(o), "packed": inPacked} {
		if h.GetNamespace() != "ns" || h.GetName() != "a" || h.GetUID() != "u" || h.GetResourceVersion() != "7" {
			t.Errorf("%s: %s/%s, UID %s, version %s", name, h.GetNamespace(), h.GetName(), h.GetUID(), h.GetResourceVersion())
		}
		if want := (handle.Key{Namespace: "ns", Name: "a"}); handle.KeyOf(h) != want {
			t.Errorf("%s: the key is %v", name, handle.KeyOf(h))
		}
		if h.Get() != o {
			t.Errorf("%s: Get returns another object while the object is in use", name)
		}
	}
}

func TestHandlesAreEqualOnlyIfTheyHoldTheSamePointer(t *testing.T) {
	a, b := &object{}, &object{}
	if handle.Of(a) != handle.Of(a) || handle.Of(a) == handle.Of(b) {
		t.Error("handles do not compare as pointers do")
	}
	var none *object
	if zero := (handle.Handle[*object]{}); handle.Of(none) != zero || zero.Get() != nil {
		t.Error("the handle of no object is not the zero handle")
	}
}

func TestAnUnusedPackedObjectIsDecodedAgain(t *testing.T) {
	h, o := packed(t)
	o.Content = "changed" // the last use of it
	for range 100 {
		runtime.GC()
		if h.Get().Content == "some" {
			return
		}
	}
	t.Error("the object is still in memory")
}

func TestOnlyAPackedObjectHasText(t *testing.T) {
	h, o := packed(t)
	if got, err := h.Text([]byte("> ")); err != nil || string(got) != "> "+text {
		t.Errorf("the text is %q, %v", got, err)
	}
	if got, err := handle.Of(o).Text(nil); err == nil {
		t.Errorf("the text of an object that is held as it is: %q", got)
	}
	runtime.KeepAlive(o)
}
