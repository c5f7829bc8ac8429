package load

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// stored renders an object as a server returns it, without its last brace, which pages adds.
func stored(o Object, managers string) string {
	text := string(o.append(nil, Stamp{Key: 3, Seq: 4}))
	text = strings.Replace(text, `"metadata":{`, `"metadata":{"uid":"u","managedFields":[`+managers+`],`, 1)
	return strings.TrimSuffix(text, "}")
}

const (
	byUser    = `{"manager":"user","operation":"Apply","fieldsV1":{"f:spec":{"f:stamp":{}}}}`
	byKubelet = `{"manager":"kubelet","operation":"Update","subresource":"status"}`
)

func TestWriterFindsWhatTheServerDidNotStore(t *testing.T) {
	object := Object{Namespace: "default", Name: "a", Version: "7", Content: Structured, Manager: "user"}
	good := stored(object, byUser)
	for _, tc := range []struct{ name, answer, err string }{
		{"all of it", good, ""},
		{"with a default", strings.Replace(good, `"replicas"`, `"more":1,"replicas"`, 1), ""},
		{"another value", strings.Replace(good, `"weight":0.25`, `"weight":0.5`, 1), "object.spec.weight"},
		{"no value", strings.Replace(good, `"paused":false,`, "", 1), "object.spec.paused"},
		{"a list that is shorter", strings.Replace(good, `,"--verbosity=2"`, "", 1), "object.spec.containers[0].args"},
		{
			"a string instead of a map",
			strings.Replace(good, `"selector":{"app":"bench","tier":"backend","zone":"a"}`, `"selector":"x"`, 1),
			"object.spec.selector",
		},
		{"another version", strings.Replace(good, `"resourceVersion":"7"`, `"resourceVersion":"8"`, 1), "resourceVersion 8"},
		{"another manager", strings.Replace(good, byUser, byUser+","+byKubelet, 1), "Apply user, Update kubelet status"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var answer refilled = object.append(nil, Stamp{Key: 3, Seq: 4})
			w := &Writer{Object: object, Conn: &pages{bodies: []string{tc.answer}}, body: answer}
			// The time of the stamp is that of the rendering.
			spec := strings.Index(tc.answer, stampName)
			copy(w.body[strings.Index(string(w.body), stampName):], tc.answer[spec:spec+len(stampName)+stampBytes])
			err := w.Check("Apply user")
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%v; want %q", err, tc.err)
			}
		})
	}
}

func TestModifySendsTheLastAnswerWithANewStamp(t *testing.T) {
	object := Object{Namespace: "default", Name: "a", Version: "7", Content: Structured, Manager: "user"}
	conn := &pages{bodies: []string{stored(object, byUser)}}
	w := &Writer{Object: object, Key: 3, Conn: conn}
	if err := w.Modify(); err == nil {
		t.Error("an object that was never read was modified")
	}
	if err := w.Update(); err != nil {
		t.Fatalf("update: %v", err)
	}
	last := string(w.answer)
	if err := w.Modify(); err != nil {
		t.Fatalf("modify: %v", err)
	}
	var got struct{ Spec struct{ Stamp string } }
	if err := json.Unmarshal(w.body, &got); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	if s, ok := parseStamp([]byte(got.Spec.Stamp)); !ok || s.Seq != 1 || s.Key != 3 {
		t.Errorf("stamp %q", got.Spec.Stamp)
	}
	at := strings.Index(last, stampName) + len(stampName)
	if want := last[:at] + got.Spec.Stamp + last[at+stampBytes:]; string(w.body) != want {
		t.Errorf("sent %s; want %s", w.body, want)
	}
	if want := "/apis/bench.gapless.io/v1/namespaces/default/benches/a?fieldManager=user"; conn.paths[len(conn.paths)-1] != want {
		t.Errorf("sent to %v; want %s", conn.paths, want)
	}
}

func TestReapplySendsTheSameBodyWithoutAVersion(t *testing.T) {
	object := Object{Namespace: "default", Name: "a", Version: "7", Content: Structured, Manager: "user"}
	conn := &pages{bodies: []string{stored(object, byUser)}}
	w := &Writer{Object: object, Conn: conn}
	if err := w.Apply(); err != nil {
		t.Fatalf("apply: %v", err)
	}
	applied := string(w.body)
	if err := w.Reapply(); err != nil {
		t.Fatalf("reapply: %v", err)
	}
	if string(w.body) != applied || strings.Contains(applied, versionName) || w.Seq != 1 || w.Object.Version != "7" {
		t.Errorf("applied %s and then %s, %d writes, version %s", applied, w.body, w.Seq, w.Object.Version)
	}
	if want := "/a?force=true&fieldManager=user"; !strings.HasSuffix(conn.paths[1], want) {
		t.Errorf("sent to %v; want %s", conn.paths, want)
	}
}

func TestManagersAreCountedOverAllPages(t *testing.T) {
	first := item("a", 1)
	managed := strings.Replace(first, `"uid":"u"`, `"uid":"u","managedFields":[`+byKubelet+","+byUser+`]`, 1)
	counts, err := Managers(&pages{bodies: []string{page("more", managed, first), page("", managed)}}, "/x")
	if want := map[string]int{"Apply user, Update kubelet status": 2, "": 1}; err != nil || !maps.Equal(counts, want) {
		t.Errorf("%v, %v; want %v", counts, err, want)
	}
}

func TestTheStatusOfAPodIsJSON(t *testing.T) {
	var patch struct {
		Status struct {
			Phase      string
			Conditions []any
		}
	}
	if err := json.Unmarshal(appendStatus(nil, 70_007), &patch); err != nil || patch.Status.Phase != "Running" ||
		len(patch.Status.Conditions) != 5 {
		t.Errorf("%+v, %v", patch, err)
	}
}
