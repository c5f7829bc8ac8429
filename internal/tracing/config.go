package tracing

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	tracingapi "k8s.io/component-base/tracing/api/v1"
)

// Configuration says where spans are sent, by OTLP over gRPC without TLS, and of how many requests.
type Configuration = tracingapi.TracingConfiguration

// Read reads a file with a TracingConfiguration of apiserver.config.k8s.io, in YAML or JSON. "" is no file, and no
// configuration. Errors name the file, and the field.
func Read(file string) (*Configuration, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // the documentation says so
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the tracing configuration (--tracing-config-file): %w", err)
	}
	cfg, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("tracing configuration %s: %w", file, err)
	}
	return cfg, nil
}

func parse(text []byte) (*Configuration, error) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	const want = "want a TracingConfiguration of apiserver.config.k8s.io/v1"
	decoded, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), text)
	if err != nil {
		if runtime.IsMissingVersion(err) || runtime.IsMissingKind(err) || runtime.IsNotRegisteredError(err) {
			return nil, fmt.Errorf("%w; %s", err, want)
		}
		return nil, err
	}
	read, is := decoded.(*apiserver.TracingConfiguration)
	if !is {
		return nil, fmt.Errorf("it is a %T: %s", decoded, want)
	}
	cfg := &read.TracingConfiguration
	return cfg, tracingapi.ValidateTracingConfiguration(cfg, nil, nil).ToAggregate()
}
