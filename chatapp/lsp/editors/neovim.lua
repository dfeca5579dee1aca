-- chatapp in Neovim: offers as grey text at the cursor, by a model on this machine.
--
-- Neovim 0.11 and newer; lies in plugin/ of Neovim's configuration folder, and needs no plugin manager.
-- <Tab> takes the grey text, <Esc> drops it with insert mode, <C-]> without leaving it;
-- <M-\> asks for offers that were not sure enough to be shown, and again, for the next one.
-- In init.lua, where something is to differ:
--   vim.g.chatapp = { accept = "<C-y>", trigger = "<M-l>", dismiss = "<C-e>", highlight = "Comment" }
--   vim.lsp.config("chatapp", { init_options = { threshold = 0.3 } })
-- and :lua vim.lsp.enable("chatapp", false) switches it off.

if not vim.lsp.config then
  vim.notify("chatapp needs Neovim 0.11 or newer", vim.log.levels.WARN)
  return
end

local wanted = vim.tbl_extend("keep", vim.g.chatapp or {}, {
  accept = "<Tab>",
  trigger = "<M-\\>",
  dismiss = "<C-]>",
  highlight = "NonText",
})

vim.lsp.config("chatapp", {
  cmd = { "/path/to/chatapp", "lsp" },
  root_markers = { ".git", "pyproject.toml", "package.json", "go.mod", "Cargo.toml" },
  capabilities = { textDocument = { inlineCompletion = { dynamicRegistration = false } } },
})

-- What the key would do without us: another mapping, such as that of snippets, or itself.
local function fall_back(key)
  local before = vim.fn.maparg(key, "i", false, true)
  return function()
    if before.expr == 1 and before.callback then
      return before.callback() or ""
    elseif before.expr == 1 then
      return vim.api.nvim_eval(before.rhs)
    elseif before.callback then
      vim.schedule(before.callback)
      return ""
    end
    return before.rhs or key
  end
end

-- A key that does something where `act` returns true, and what it did before elsewhere.
local function map(key, what, act)
  local otherwise = fall_back(key)
  vim.keymap.set("i", key, function()
    return act() and "<C-g>u" or otherwise() -- what follows is undone by itself
  end, { expr = true, replace_keycodes = true, desc = "chatapp: " .. what })
end

local group = vim.api.nvim_create_augroup("chatapp", { clear = true })

if vim.lsp.inline_completion then -- Neovim 0.12 and newer draw grey text themselves
  vim.api.nvim_create_autocmd("LspAttach", {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if client and client.name == "chatapp" then
        vim.lsp.inline_completion.enable(true, { bufnr = event.buf })
      end
    end,
  })
  map(wanted.accept, "take the offer", function()
    return vim.lsp.inline_completion.get()
  end)
  map(wanted.trigger, "show the next offer", function()
    vim.lsp.inline_completion.select()
    return true
  end)
  vim.lsp.enable("chatapp")
  return
end

local namespace = vim.api.nvim_create_namespace("chatapp")
local PAUSE = 60 -- milliseconds without a key before the server is asked
local timer = assert(vim.uv.new_timer())
local shown -- what is drawn: buffer, row and column where it begins, its text, its item; and all items, and which it is
local asked -- what is being asked: client, buffer and the request's number; only the newest request is here

local function cancel()
  timer:stop()
  if asked then
    asked.client:cancel_request(asked.id)
    asked = nil
  end
end

local function hide()
  if shown and vim.api.nvim_buf_is_valid(shown.buffer) then
    vim.api.nvim_buf_clear_namespace(shown.buffer, namespace, 0, -1)
  end
  shown = nil
end

local function drop()
  cancel()
  hide()
end

local function draw()
  local lines = vim.split(shown.text, "\n")
  local rest = {}
  for index = 2, #lines do
    rest[#rest + 1] = { { lines[index], wanted.highlight } }
  end
  vim.api.nvim_buf_clear_namespace(shown.buffer, namespace, 0, -1)
  vim.api.nvim_buf_set_extmark(shown.buffer, namespace, shown.row, shown.column, {
    virt_text = { { lines[1], wanted.highlight } },
    virt_text_pos = "inline",
    virt_lines = #rest > 0 and rest or nil,
    hl_mode = "combine",
  })
end

-- The row and the column, in bytes from 0, of the cursor.
local function find_cursor()
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  return row - 1, column
end

-- Show one of the items of an answer: what of its text is still to be typed at the cursor.
local function show(buffer, items, index, encoding)
  local item = items[index]
  local text = type(item.insertText) == "table" and item.insertText.value or item.insertText
  local row, column = find_cursor()
  local start = column
  if item.range then
    local line = vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1]
    start = vim.str_byteindex(line, encoding, item.range.start.character, false)
    local begun = line:sub(start + 1, column)
    if item.range.start.line ~= row or not vim.startswith(text, begun) then
      return
    end
    text = text:sub(#begun + 1)
  end
  if text ~= "" then
    shown = { buffer = buffer, row = row, column = column, text = text, items = items, index = index, encoding = encoding }
    draw()
  end
end

-- Ask the server for offers at the cursor; `kind` is 1 where the user asks, and 2 where typing does.
local function ask(kind)
  cancel()
  local buffer = vim.api.nvim_get_current_buf()
  local client = vim.lsp.get_clients({ bufnr = buffer, name = "chatapp" })[1]
  if not client or not client:supports_method("textDocument/inlineCompletion") then
    return
  end
  local row, column = find_cursor()
  local tick = vim.api.nvim_buf_get_changedtick(buffer)
  local request = { client = client }
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = kind }
  local sent, id = client:request("textDocument/inlineCompletion", params, function(error, answer)
    if asked ~= request then
      return -- a newer request, or a key that dropped this one
    end
    asked = nil
    local here_row, here_column = find_cursor()
    local same = buffer == vim.api.nvim_get_current_buf() and row == here_row and column == here_column
    if error or not answer or not same or tick ~= vim.api.nvim_buf_get_changedtick(buffer) then
      return
    end
    local items = answer.items or answer
    if #items > 0 and vim.startswith(vim.api.nvim_get_mode().mode, "i") then
      hide()
      show(buffer, items, 1, client.offset_encoding)
    end
  end, buffer)
  if sent then
    request.id = id
    asked = request
  end
end

-- Whether what is shown was typed on, so that it is drawn again, shorter, and nothing is asked.
local function type_on()
  local row, column = find_cursor()
  if not shown or shown.buffer ~= vim.api.nvim_get_current_buf() or row ~= shown.row or column < shown.column then
    return false
  end
  local line = vim.api.nvim_buf_get_lines(shown.buffer, row, row + 1, false)[1]
  local typed = line:sub(shown.column + 1, column)
  if #typed >= #shown.text or not vim.startswith(shown.text, typed) then
    return false
  end
  shown.text, shown.column = shown.text:sub(#typed + 1), column
  draw()
  return true
end

local function follow()
  if type_on() then
    return
  end
  drop()
  timer:start(PAUSE, 0, vim.schedule_wrap(function()
    if vim.startswith(vim.api.nvim_get_mode().mode, "i") and vim.fn.pumvisible() == 0 then
      ask(2)
    end
  end))
end

vim.api.nvim_create_autocmd({ "InsertEnter", "CursorMovedI", "TextChangedI" }, { group = group, callback = follow })
vim.api.nvim_create_autocmd({ "InsertLeave", "BufLeave" }, { group = group, callback = drop })

map(wanted.accept, "take the offer", function()
  if not shown then
    return false
  end
  local taken = shown
  drop()
  vim.schedule(function() -- a mapping with a result must not change the text itself
    local lines = vim.split(taken.text, "\n")
    vim.api.nvim_buf_set_text(taken.buffer, taken.row, taken.column, taken.row, taken.column, lines)
    local width = #lines[#lines] + (#lines == 1 and taken.column or 0)
    vim.api.nvim_win_set_cursor(0, { taken.row + #lines, width })
    local client = vim.lsp.get_clients({ bufnr = taken.buffer, name = "chatapp" })[1]
    local command = taken.items[taken.index].command
    if client and command then
      client:request("workspace/executeCommand", { command = command.command, arguments = command.arguments })
    end
  end)
  return true
end)

map(wanted.dismiss, "drop the offer", function()
  local there = shown ~= nil
  drop()
  return there
end)

map(wanted.trigger, "ask for an offer, or show the next one", function()
  vim.schedule(function()
    if shown and #shown.items > 1 then
      local before = shown
      hide()
      show(before.buffer, before.items, before.index % #before.items + 1, before.encoding)
    else
      ask(1)
    end
  end)
  return true
end)

vim.lsp.enable("chatapp")
