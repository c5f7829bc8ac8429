//go:build invariants

package admission

import "context"

type formKey struct{}

func withForm(ctx context.Context, form Form) context.Context {
	return context.WithValue(ctx, formKey{}, form)
}

// FormOf returns the form of the object that plugins are asked about, with which they can check what they have made of
// it without having changed it; nil if there is none.
func FormOf(ctx context.Context) Form {
	form, _ := ctx.Value(formKey{}).(Form)
	return form
}
