"""Between coordinator and student: the label service, its wire form, and who may reach it."""
