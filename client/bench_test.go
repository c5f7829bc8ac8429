package client_test

import (
	"testing"

	"github.com/gapless-io/gapless/client"
)

func BenchmarkMetaOfProtobuf(b *testing.B) {
	object := newUpstream(b).object(b, pod(7))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.MetaOf(object); err != nil {
			b.Fatal(err)
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
			b.Fatal(err)
		}
		if into, err = e.AppendStripped(into[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
