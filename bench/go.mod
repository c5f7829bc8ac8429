module github.com/gapless-io/gapless/bench

go 1.26.0

require sigs.k8s.io/yaml v1.6.0

require (
	github.com/kr/pretty v0.1.0 // indirect
	golang.org/x/net v0.59.0
	golang.org/x/text v0.42.0 // indirect
	gopkg.in/check.v1 v1.0.0-20180628173108-788fd7840127 // indirect
)

require (
	github.com/kr/text v0.2.0 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
)
