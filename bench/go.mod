module github.com/gapless-io/gapless/bench

go 1.26.0

require (
	github.com/gapless-io/gapless/compat/harness v0.0.0
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/kr/text v0.2.0 // indirect
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v2 v2.4.2 // indirect
)

replace github.com/gapless-io/gapless/compat/harness => ../compat/harness
