package tracing_test

import (
	"context"
	"testing"

	"github.com/gapless-io/gapless/internal/tracing"
)

// BenchmarkStartWithoutASpan is what each part of a request costs that is not recorded: the context is as deep as that of
// a write.
func BenchmarkStartWithoutASpan(b *testing.B) {
	type key int
	ctx := b.Context()
	for i := range 10 {
		ctx = context.WithValue(ctx, key(i), i) //nolint:fatcontext // it is to be deep
	}
	b.ReportAllocs()
	for b.Loop() {
		_, span := tracing.Start(ctx, "Store: commit")
		span.End(nil)
	}
}
