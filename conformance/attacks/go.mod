module github.com/gapless-io/gapless/conformance/attacks

go 1.26.0

replace github.com/gapless-io/gapless/compat/harness => ../../compat/harness

replace github.com/gapless-io/gapless/conformance/crash => ../crash

require (
	github.com/gapless-io/gapless/compat/harness v0.0.0-00010101000000-000000000000
	github.com/gapless-io/gapless/conformance/crash v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.59.0
	golang.org/x/sync v0.24.0
)

require (
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)
