package wire_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/wire"
)

func TestOutlinesHaveTheLabelsAndFieldsOfTheirObjects(t *testing.T) {
	sel := []wire.FieldPath{
		{Label: "n", Path: []string{"spec", "nodeName"}}, {Label: "p", Path: []string{"status", "phase"}, Default: "none"},
	}
	var objects []*wire.Object
	var text []byte
	for i, members := range []string{
		`"metadata":{"name":"a","labels":{"a":"b","long":"%s","empty":""}},"spec":{"nodeName":"x"}`,
		`"metadata":{"name":"a","namespace":"%.1s"},"status":{"phase":"é"}`,
		`"metadata":{"name":"b","labels":{"a":"%.1s"}}`,
	} {
		o, err := wire.Unstamped(fmt.Appendf(nil, "{"+members+"}", fmt.Sprintf("%0200d", i)), sel)
		if err != nil {
			t.Fatalf("parse object %d: %v", i, err)
		}
		objects, text = append(objects, o), wire.AppendOutline(text, o)
	}
	type seen struct {
		labels map[string]string
		fields [4]string
		has    bool
	}
	see := func(o *wire.Object) seen {
		f := o.Fields()
		s := seen{
			labels: map[string]string{}, has: f.Has("p"),
			fields: [4]string{f.Get("n"), f.Get("p"), f.Get("metadata.name"), f.Get("metadata.namespace")},
		}
		maps.Copy(s.labels, o.Labels())
		return s
	}
	outlines := wire.NewOutlines(string(text), sel)
	for i, o := range objects {
		if diff := cmp.Diff(see(o), see(outlines.Next(o.Key())), cmp.AllowUnexported(seen{})); diff != "" {
			t.Errorf("object %d (-want +got):\n%s", i, diff)
		}
	}
}
