package server

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// settings are flags with their values, in their order.
type settings []struct{ name, value string }

// readSettings reads flags as --name=value, --name value, or --name; those that change nothing are left out.
func readSettings(flags []string) settings {
	var all settings
	for i := 0; i < len(flags); i++ {
		name, value, has := strings.Cut(strings.TrimLeft(flags[i], "-"), "=")
		switch {
		case has:
		case i+1 < len(flags) && !strings.HasPrefix(flags[i+1], "-"):
			i++
			value = flags[i]
		default:
			value = "true"
		}
		if name != "" && !isIgnored(name) {
			all = append(all, struct{ name, value string }{name, value})
		}
	}
	return all
}

// access lets everybody do everything unless flags say who may do what, which is upstream's default.
func (s *settings) access() {
	for _, one := range *s {
		if one.name == "authorization-mode" || one.name == "authorization-config" {
			return
		}
	}
	s.set("authorization-mode", "AlwaysAllow")
}

// plugins leaves out what the program does not turn off.
func (s *settings) plugins() {
	for i, one := range *s {
		if one.name == "disable-admission-plugins" {
			names := strings.Split(one.value, ",")
			names = slices.DeleteFunc(names, func(name string) bool { return name == "NamespaceLifecycle" })
			(*s)[i].value = strings.Join(names, ",")
		}
	}
}

// take removes a flag, and returns its last value.
func (s *settings) take(name string) (last string) {
	var others settings
	for _, one := range *s {
		if one.name == name {
			last = one.value
		} else {
			others = append(others, one)
		}
	}
	*s = others
	return last
}

func (s *settings) set(name, value string) {
	s.take(name)
	*s = append(*s, struct{ name, value string }{name, value})
}

func (s settings) args() []string {
	args := make([]string, len(s))
	for i, one := range s {
		args[i] = "--" + one.name + "=" + one.value
	}
	return args
}

// place says where the objects are kept: below the prefix in etcd, or in a directory that has its name.
func (s *settings) place(dir string) error {
	prefix := "/" + strings.Trim(s.take("etcd-prefix"), "/")
	servers := s.take("etcd-servers")
	if root := os.Getenv(Directories); root != "" {
		s.set("data-dir", filepath.Join(root, url.PathEscape(prefix)))
		s.set("unsafe-no-fsync", "true")
		return nil
	}
	if servers == "" {
		return fmt.Errorf("no etcd: set %s", Etcd)
	}
	s.set("data-dir", dir)
	s.set("etcd-servers", servers)
	s.set("etcd-prefix", prefix)
	return nil
}

// addCaller lets a token be that of who may do everything, besides those that are in a file already.
func (s *settings) addCaller(file, token string) error {
	var others []byte
	if given := s.take("token-auth-file"); given != "" {
		var err error
		if others, err = os.ReadFile(given); err != nil {
			return err
		}
	}
	line := token + `,system:apiserver,` + token + `,"system:masters"` + "\n"
	s.set("token-auth-file", file)
	return os.WriteFile(file, append([]byte(line), others...), 0o600)
}

// Merge returns the flags of both, those of the second instead of those of the first with the same names.
func Merge(flags, instead []string) []string {
	names := map[string]bool{}
	for _, flag := range instead {
		name, _, _ := strings.Cut(flag, "=")
		names[name] = true
	}
	var all []string
	for _, flag := range flags {
		if name, _, _ := strings.Cut(flag, "="); !names[name] {
			all = append(all, flag)
		}
	}
	return append(all, instead...)
}
