"""What AgentScope's Toolkit keeps: registered tools, groups and skills."""

import copy
import inspect
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

from pydantic import BaseModel, Field, create_model

from pegboard.compat.agentscope.blocks import ToolResponse, ToolUseBlock, saying
from pegboard.compat.agentscope.function import JsonSchema, without_titles

__all__ = [
    "BASIC",
    "AgentSkill",
    "Postprocess",
    "RegisteredToolFunction",
    "ToolGroup",
    "ToolkitState",
    "read_skill",
]

logger: logging.Logger = logging.getLogger("pegboard.compat")

BASIC = "basic"
"""The group that is always active."""

Postprocess: TypeAlias = Callable[
    [ToolUseBlock, ToolResponse], ToolResponse | Awaitable[ToolResponse | None] | None
]
"""Sees each response before the agent; what it returns, unless ``None``, replaces the response."""


@dataclass
class RegisteredToolFunction:
    """A tool of a Toolkit; a change of it counts from the next call."""

    name: str
    group: str
    source: Literal["function", "mcp_server", "function_group"]
    original_func: Callable[..., Any]
    json_schema: JsonSchema
    preset_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    """Arguments that the model does not see."""
    original_name: str | None = None
    """The name of the function, where the tool has another one."""
    extended_model: type[BaseModel] | None = None
    """Its fields are arguments of the tool, too."""
    mcp_name: str | None = None
    """The client that the tool comes from."""
    postprocess_func: Postprocess | None = None
    async_execution: bool = False
    """True when a call only starts the tool."""

    @property
    def extended_json_schema(self) -> JsonSchema:
        """The definition for a model, with the fields of the extended model.

        Raises:
            ValueError: when both have a field, or a definition, of the same name.
        """
        if self.extended_model is None:
            return self.json_schema
        extended = copy.deepcopy(self.json_schema)
        parameters = extended["function"]["parameters"]
        added = without_titles(self.extended_model.model_json_schema())
        _merge(parameters["properties"], added.get("properties", {}), tool=self.name)
        if required := added.get("required"):
            parameters["required"] = [*parameters.get("required", ()), *required]
        if definitions := added.get("$defs"):
            known = parameters.setdefault("$defs", {})
            # Both may use the same model.
            new = {
                key: it
                for key, it in definitions.items()
                if key not in known or without_titles(known[key]) != it
            }
            _merge(known, new, tool=self.name)
        return extended


@dataclass
class ToolGroup:
    """Tools that a model sees only while the group is active."""

    name: str
    active: bool
    description: str
    notes: str | None = None
    """How to use the tools, for the prompt."""


class AgentSkill(TypedDict):
    """A folder with instructions for an agent."""

    name: str
    description: str
    dir: str


class ToolkitState:
    """Tools, groups and skills by name, and what they tell a model."""

    _SKILL_INSTRUCTION = (
        "# Skills\n"
        "A skill is a folder with instructions, and with scripts and files that they use. Before "
        "you use a skill, read the file `SKILL.md` in its folder."
    )
    _SKILL_TEMPLATE = '## {name}\n{description}\nRead "{dir}/SKILL.md" to learn how.'

    def __init__(
        self, agent_skill_instruction: str | None, agent_skill_template: str | None
    ) -> None:
        self.tools: dict[str, RegisteredToolFunction] = {}
        self.groups: dict[str, ToolGroup] = {}
        self.skills: dict[str, AgentSkill] = {}
        self._skill_instruction = agent_skill_instruction or self._SKILL_INSTRUCTION
        self._skill_template = agent_skill_template or self._SKILL_TEMPLATE

    def remove_tool_function(
        self,
        tool_name: str,
        allow_not_exist: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        """Remove a tool, if there is one of that name.

        Raises:
            ValueError: when no tool has that name, unless ``allow_not_exist`` is true.
        """
        if self.tools.pop(tool_name, None) is None and not allow_not_exist:
            raise ValueError(f"No tool is named {tool_name!r}.")

    def clear(self) -> None:
        """Remove all tools and groups."""
        self.tools.clear()
        self.groups.clear()

    def create_tool_group(
        self,
        group_name: str,
        description: str = "",
        active: bool = False,  # noqa: FBT001, FBT002
        notes: str | None = None,
    ) -> None:
        """Create a group of tools that can be seen and called only while it is active.

        Args:
            group_name: the name of the group.
            description: what the tools of the group are for.
            active: true when the tools can be seen at once.
            notes: how to use the tools; see `get_activated_notes`.

        Raises:
            ValueError: when there is a group of that name.
        """
        if group_name in self.groups or group_name == BASIC:
            raise ValueError(f"A tool group named {group_name!r} already exists.")
        self.groups[group_name] = ToolGroup(group_name, active, description, notes)

    def update_tool_groups(self, group_names: Iterable[str], active: bool) -> None:  # noqa: FBT001
        """Switch groups on or off; ``"basic"`` stays on."""
        for name in group_names:
            if name == BASIC:
                logger.warning("group_kept: the group 'basic' is always active")
            if name in self.groups:
                self.groups[name].active = active

    def remove_tool_groups(self, group_names: str | list[str]) -> None:
        """Remove groups and the tools in them.

        Raises:
            TypeError: when it is not a list of names.
            ValueError: when one of them is ``"basic"``.
        """
        names = [group_names] if isinstance(group_names, str) else group_names
        if not isinstance(names, list) or not all(isinstance(it, str) for it in names):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`group_names` takes a list of names, not {group_names!r}.")
        if BASIC in names:
            raise ValueError("The group 'basic' cannot be removed.")
        for name in names:
            self.groups.pop(name, None)
        for name in [key for key, tool in self.tools.items() if tool.group in names]:
            del self.tools[name]

    def get_activated_notes(self) -> str:
        """Return the notes of all active groups, for a prompt."""
        return "\n".join(
            f"## About Tool Group '{group.name}'\n{group.notes}"
            for group in self.groups.values()
            if group.active and group.notes
        )

    def reset_equipped_tools(self, **kwargs: Any) -> ToolResponse:
        """Choose the tool groups that you need for the task at hand.

        Set a group to true to activate it. All groups that you do not set to true are switched
        off, also those that were active before.

        You learn how to use the groups that are active then: follow what is said there. Activate
        few groups at a time, and call this again when the task changes.
        """
        for group in self.groups.values():
            group.active = False
        for name, value in kwargs.items():
            if not isinstance(value, bool):
                return saying(
                    f"Invalid arguments: the argument {name} should be a bool value, "
                    f"but got {type(value)}."
                )
        chosen = [name for name, value in kwargs.items() if value]
        self.update_tool_groups(chosen, active=True)
        text = ""
        if chosen:
            listed = ", ".join(f"'{it}'" for it in chosen)
            text = f"Now tool groups {listed} are activated."
        if notes := self.get_activated_notes():
            text += f" You MUST follow these notes to use these tools:\n<notes>{notes}</notes>"
        return saying(text or "All tool groups are now deactivated currently.")

    def get_json_schemas(self) -> list[JsonSchema]:
        """Return the definitions of all active tools, in the form for a model.

        Raises:
            ValueError: when an extended model has a field that its tool has already.
        """
        if (meta := self.reset_equipped_tools.__name__) in self.tools:
            # The model chooses among the groups of this moment.
            fields: dict[str, Any] = {
                name: (bool, Field(default=False, description=group.description))
                for name, group in self.groups.items()
            }
            self.set_extended_model(meta, create_model("Groups", **fields))
        return [it.extended_json_schema for it in self.tools.values() if self.is_active(it)]

    def set_extended_model(self, func_name: str, model: type[BaseModel] | None) -> None:
        """Add the fields of a model to the arguments of a tool, or take them away again.

        Raises:
            TypeError: when it is not a pydantic model.
            ValueError: when no tool has that name.
        """
        if model is not None and not issubclass(model, BaseModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"An extended model is a class of pydantic's `BaseModel`, not {model!r}."
            )
        if func_name not in self.tools:
            raise ValueError(f"No tool is named {func_name!r}.")
        self.tools[func_name].extended_model = model

    def register_agent_skill(self, skill_dir: str) -> None:
        """Add the skill of a folder to the prompt of `get_agent_skill_prompt`.

        Raises:
            ValueError: when the folder holds no skill, or one of that name is known.
        """
        skill = read_skill(skill_dir)
        if skill["name"] in self.skills:
            raise ValueError(f"A skill named {skill['name']!r} already exists.")
        self.skills[skill["name"]] = skill

    def remove_agent_skill(self, name: str) -> None:
        """Remove a skill; an unknown name is logged."""
        if self.skills.pop(name, None) is None:
            logger.warning("skill_missing: no skill is named %r, so none is removed", name)

    def get_agent_skill_prompt(self) -> str | None:
        """Return the text about all skills for a prompt, or ``None`` if there is no skill."""
        if not self.skills:
            return None
        told = [self._skill_template.format(**skill) for skill in self.skills.values()]
        return "\n".join([self._skill_instruction, *told])

    def state_dict(self) -> dict[str, Any]:
        """Return which groups are active."""
        return {"active_groups": [name for name, it in self.groups.items() if it.active]}

    def load_state_dict(
        self,
        state_dict: dict[str, Any],
        strict: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        """Switch the groups as they were when `state_dict` was called.

        Raises:
            ValueError: when it is not such a state, or with ``strict``, when it holds more.
        """
        active: object = state_dict.get("active_groups") if isinstance(state_dict, dict) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if not isinstance(active, list):
            raise ValueError('A state has the form {"active_groups": [...]}.')  # noqa: TRY004 - AgentScope's
        if strict and len(state_dict) > 1:
            raise ValueError(f"A state holds `active_groups` alone, not {sorted(state_dict)}.")
        for name, group in self.groups.items():
            group.active = name in active

    def register_state(
        self,
        attr_name: str,
        custom_to_json: Callable[[Any], Any] | None = None,
        custom_from_json: Callable[[Any], Any] | None = None,
    ) -> None:
        """Check that an attribute can be stored; the state of a toolkit is its groups alone.

        Raises:
            TypeError: when it is no JSON value, and there is no function that makes it one.
        """
        value = getattr(self, attr_name)
        if custom_to_json is None:
            try:
                json.dumps(value)
            except (TypeError, ValueError) as error:
                raise TypeError(f"Attribute {attr_name!r} is not a JSON value.") from error

    def is_active(self, tool: RegisteredToolFunction) -> bool:
        """Tell whether a tool can be seen and called."""
        return self._is_group_active(tool.group)

    def _is_group_active(self, name: str) -> bool:
        # A program may have deleted it from `groups`.
        return name == BASIC or (name in self.groups and self.groups[name].active)


def read_skill(folder: str) -> AgentSkill:
    """Read the name and the description of a skill from the head of its ``SKILL.md``.

    Raises:
        ValueError: when there is no such folder or file, or the file does not tell both.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"The folder of the skill does not exist: {folder!r}.")
    page = Path(folder) / "SKILL.md"
    if not page.is_file():
        raise ValueError(f"The folder {folder!r} has no file `SKILL.md`.")
    try:
        head = _front_matter(page.read_text("utf-8"))
    except UnicodeDecodeError as error:
        error.reason += f". Save {str(page)!r} as UTF-8"
        raise
    name, description = head.get("name"), head.get("description")
    if not name or not description:
        raise ValueError(
            f"The head of {str(page)!r}, between two lines `---`, must tell `name` and "
            "`description`."
        )
    return AgentSkill(name=name, description=description, dir=folder)


def _merge(known: JsonSchema, added: JsonSchema, *, tool: str) -> None:
    if taken := sorted(known.keys() & added):
        names = ", ".join(map(repr, taken))
        raise ValueError(f"Tool {tool!r} has these already: {names}. Give them other names.")
    known.update(added)


def _front_matter(text: str) -> dict[str, str]:
    """Read the top-level texts of the YAML between two lines ``---``, in any of YAML's styles."""
    found = re.match(r"\ufeff?\s*---[ \t]*\n(.*?)^---[ \t]*$", text, re.DOTALL | re.MULTILINE)
    entries = re.findall(
        r"^([\w-]+)[ \t]*:[ \t]*(.*(?:\n(?:[ \t]+.*|[ \t]*))*)",
        found[1] if found else "",
        re.MULTILINE,
    )
    return {key: _scalar(value) for key, value in entries}


def _scalar(value: str) -> str:
    first, *rest = value.rstrip().split("\n")
    first = first.strip()
    if first[:1] in ("|", ">"):
        text = inspect.cleandoc("\n".join(["", *rest]))
        return (text if first[0] == "|" else _folded(text)) + "\n" * ("-" not in first)
    joined = _folded("\n".join(it.strip() for it in (first, *rest)))
    if quoted := re.match(r'"((?:[^"\\]|\\.)*)"', joined, re.DOTALL):
        return re.sub(r"\\(.)", lambda it: {"n": "\n", "t": "\t"}.get(it[1], it[1]), quoted[1])
    if quoted := re.match(r"'((?:[^']|'')*)'", joined):
        return quoted[1].replace("''", "'")
    return re.split(r"(?:^|\s)#", joined)[0].strip()


def _folded(text: str) -> str:
    """Join lines; a blank line is the end of a paragraph."""
    return "\n".join(part.replace("\n", " ") for part in re.split(r"\n\n", text))
