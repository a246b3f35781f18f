// The least that a program can do with chat templates: it renders one message.
#include <tenon/chat/template.h>

#include <iostream>

int main() {
  const tenon::chat::Template chatml("{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}{% endfor %}");
  const auto prompt = chatml.render({.messages = {{{"role", "user"}, {"content", " Hello "}}}});
  std::cout << prompt.text << '\n';
  return prompt.text == "<|user|>Hello" && prompt.template_spans.size() == 1 ? 0 : 1;
}
