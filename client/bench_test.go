package client_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
)

func BenchmarkMetaOfProtobuf(b *testing.B) {
	object := newUpstream(b).object(b, pod(7))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.MetaOf(object); err != nil {
			b.Fatalf("read the metadata: %v", err)
		}
	}
}

func BenchmarkStripProtobuf(b *testing.B) {
	object := newUpstream(b).object(b, pod(7))
	var into []byte
	b.ReportAllocs()
	for b.Loop() {
		e, err := client.OpenEnvelope(object)
		if err != nil {
			b.Fatalf("open the envelope: %v", err)
		}
		if into, err = e.AppendStripped(into[:0]); err != nil {
			b.Fatalf("strip: %v", err)
		}
	}
}

// BenchmarkTypedList reads 1 000 items of a built-in kind, which do not say what they are.
func BenchmarkTypedList(b *testing.B) {
	var items []string
	for i := range 1000 {
		items = append(items,
			fmt.Sprintf(`{"metadata":{"name":"n%d","resourceVersion":"%d"},"data":{"a":%q}}`, i, i+1, strings.Repeat("x", 1500)))
	}
	list := `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[` + strings.Join(items, ",") + `]}`
	c := serve(b, jsonAnswer(list), false).As(client.Form{Typed: true})
	b.ReportAllocs()
	b.SetBytes(int64(len(list)))
	for b.Loop() {
		if _, err := c.ListLent(b.Context(), pods(""), metav1.ListOptions{}, func([]byte) error { return nil }); err != nil {
			b.Fatalf("list: %v", err)
		}
	}
}
