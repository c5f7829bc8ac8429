package main

import (
	"reflect"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless"
)

func TestEachFlagOfALimitSetsOne(t *testing.T) {
	var names []string
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	limitFlags(all, &gapless.Limits{})
	all.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	set := map[int]string{} // by field
	for _, name := range names {
		var usual, limits gapless.Limits
		limitFlags(pflag.NewFlagSet("", pflag.ContinueOnError), &usual)
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		limitFlags(flags, &limits)
		if err := flags.Set(name, "7"); err != nil {
			t.Fatalf("set flags: %v", err)
		}
		before, after := reflect.ValueOf(usual), reflect.ValueOf(limits)
		changed := 0
		for i := range before.NumField() {
			if before.Field(i).Int() != after.Field(i).Int() && after.Field(i).Int() == 7 {
				changed++
				if set[i] != "" {
					t.Errorf("--%s and --%s set the same", set[i], name)
				}
				set[i] = name
			}
		}
		if changed != 1 {
			t.Errorf("--%s changes %d limits", name, changed)
		}
	}
	if all := reflect.TypeFor[gapless.Limits]().NumField(); len(set) != all {
		t.Errorf("there are flags for %d of %d limits", len(set), all)
	}
}
