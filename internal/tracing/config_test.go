package tracing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"

func TestAWrongFileIsRefusedWithItsFieldAndName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	for _, c := range []struct{ text, want string }{
		{head + "endpoint: collector:4317\nsamplingRatePerMillion: 7\n", ""},
		{strings.Replace(head, "v1", "v1beta1", 1), ""},
		{head + "samplingRatePerMillion: -1", "samplingRatePerMillion: Invalid value: -1"},
		{head + "samplingRatePerMillion: 1000001", "less than or equal to one million"},
		{head + "endpoint: https://collector:4317", "endpoint: Invalid value"},
		{head + "endpiont: collector:4317", `unknown field "endpiont"`},
		{head + "samplingRatePerMillion: many", "cannot unmarshal string"},
		{"endpoint: collector:4317", "want a TracingConfiguration of apiserver.config.k8s.io/v1"},
		{"apiVersion: v1\nkind: Pod", "want a TracingConfiguration"},
		{"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration", "want a TracingConfiguration"},
		{"", "want a TracingConfiguration"},
		{"{", "tracing.yaml"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
		cfg, err := Read(file)
		switch {
		case c.want == "" && (err != nil || cfg == nil):
			t.Errorf("%q: %v", c.text, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file)):
			t.Errorf("%q: error %v, want one that names the file and says %q", c.text, err, c.want)
		}
	}
	if _, err := Read(file + "x"); err == nil || !strings.Contains(err.Error(), file+"x") {
		t.Errorf("a file that is missing: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + "endpoint: collector:4317\nsamplingRatePerMillion: 7\n"))
	f.Add([]byte(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"TracingConfiguration","samplingRatePerMillion":1000000}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := parse(text)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v", text, cfg, err)
		}
		if err != nil || cfg.SamplingRatePerMillion == nil {
			return
		}
		if rate := *cfg.SamplingRatePerMillion; rate < 0 || rate > 1e6 {
			t.Fatalf("%q: %d of a million", text, rate)
		}
	})
}
