module github.com/gapless-io/gapless/bench

go 1.26.0

require (
	go.uber.org/goleak v1.3.0
	sigs.k8s.io/yaml v1.6.0
)

require (
	golang.org/x/net v0.59.0
	golang.org/x/text v0.42.0 // indirect
)

require (
	github.com/kr/text v0.2.0 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
)
