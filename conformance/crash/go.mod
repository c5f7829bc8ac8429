module github.com/gapless-io/gapless/conformance/crash

go 1.26.0

replace github.com/gapless-io/gapless/compat/harness => ../../compat/harness

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/gapless-io/gapless/compat/harness v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
)
