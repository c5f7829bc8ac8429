package plugins

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"sigs.k8s.io/yaml"
)

// Settings are the configurations of plugins, YAML or JSON of the kinds that upstream has for them, by the plugins'
// names. The nil map is none.
type Settings map[string][]byte

// ReadSettings reads the file of --admission-control-config-file: an AdmissionConfiguration of
// apiserver.config.k8s.io/v1, whose plugins have their configurations in it or in files beside it; or, as upstream
// accepts too, the file of PodNodeSelector alone. "" is no file. Errors name the file, and the plugin.
func ReadSettings(file string) (Settings, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the admission configuration: %w", err)
	}
	s, err := parseSettings(text, filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("admission configuration %s: %w", file, err)
	}
	return s, nil
}

// parseSettings parses the content of such a file, which is in dir.
func parseSettings(text []byte, dir string) (Settings, error) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoded, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), text)
	switch {
	case runtime.IsMissingVersion(err) || runtime.IsMissingKind(err):
		if alone := (struct {
			PodNodeSelector map[string]any `json:"podNodeSelectorPluginConfig"`
		}{}); yaml.Unmarshal(text, &alone) == nil && alone.PodNodeSelector != nil {
			return Settings{"PodNodeSelector": text}, nil
		}
		return nil, fmt.Errorf("%w; want an AdmissionConfiguration of apiserver.config.k8s.io/v1", err)
	case err != nil:
		return nil, err
	}
	config, is := decoded.(*apiserver.AdmissionConfiguration)
	if !is {
		return nil, fmt.Errorf("it is a %T: want an AdmissionConfiguration of apiserver.config.k8s.io/v1", decoded)
	}
	s := Settings{}
	for i, p := range config.Plugins {
		of, err := configurationOf(p, dir)
		if _, twice := s[p.Name]; twice && err == nil {
			err = errors.New("it stands there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("plugins[%d] (%s): %w", i, p.Name, err)
		}
		s[p.Name] = of
	}
	return s, nil
}

// configurationOf returns what is configured for a plugin; nil is nothing.
func configurationOf(p apiserver.AdmissionPluginConfiguration, dir string) ([]byte, error) {
	switch {
	case !IsKnown(p.Name):
		return nil, errors.New("there is no such plugin")
	case p.Configuration != nil && len(p.Configuration.Raw) > 0: // wins over the path, as upstream
		return p.Configuration.Raw, nil
	case p.Path == "":
		return nil, nil
	case !filepath.IsAbs(p.Path):
		p.Path = filepath.Join(dir, p.Path)
	}
	return os.ReadFile(p.Path)
}

// Unused returns an error that names a plugin which has a configuration, although it is not among those that take one
// and are asked.
func (s Settings) Unused(takers []string, asked []Plugin) error {
	for _, name := range ordered {
		switch {
		case len(s[name]) == 0:
		case !slices.Contains(takers, name):
			return fmt.Errorf("admission configuration: the plugin %s takes none in this server", name)
		case !IsLasting(name) && !slices.ContainsFunc(asked, func(p Plugin) bool { return p.Name == name }):
			return fmt.Errorf("admission configuration: the plugin %s is not enabled", name)
		}
	}
	return nil
}
