package server

import (
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// Flags returns the flags of kube-apiserver that make options what they are, where they are not the default.
func Flags(of *options.ServerRunOptions) []string {
	defaults := map[string]string{}
	all := options.NewServerRunOptions().Flags()
	for _, set := range all.FlagSets {
		set.VisitAll(func(f *pflag.Flag) { defaults[f.Name] = f.Value.String() })
	}
	var flags []string
	all = of.Flags()
	for _, name := range all.Order {
		all.FlagSets[name].VisitAll(func(f *pflag.Flag) {
			if f.Value.String() != defaults[f.Name] && f.Deprecated == "" {
				flags = append(flags, assignments(f)...)
			}
		})
	}
	return flags
}

// assignments are a flag with its value, or with each of several.
func assignments(f *pflag.Flag) []string {
	several, is := f.Value.(pflag.SliceValue)
	if !is {
		return []string{"--" + f.Name + "=" + f.Value.String()}
	}
	values := several.GetSlice()
	if f.Value.Type() != "stringArray" {
		values = []string{strings.Join(values, ",")}
	}
	flags := make([]string, len(values))
	for i, value := range values {
		flags[i] = "--" + f.Name + "=" + value
	}
	return flags
}
